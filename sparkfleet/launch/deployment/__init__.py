"""The deployment: its files, commands, environment and hash; pure."""
