"""Actions with the names of Ansible modules: command, copy, file, wait_for and the rest."""
