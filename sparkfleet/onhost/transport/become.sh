# Runs a command as another user through sudo. Arguments: the user, a mark or "", the command.
# Without a mark, sudo must not ask for a password. With a mark, standard input begins with three
# lines: the password of this login, the password again, and the mark. The rest is for the command.
# If sudo refuses, the exit status is 116, with sudo's message on stderr. A wrong password is tried
# only once.
user=$1 mark=$2
shift 2

leave() {
    printf 'sparkfleet: %s\n' "$1" >&2
    exit 116
}

command -v sudo >/dev/null || leave "sudo is not installed"

if [ -z "$mark" ]; then
    message=$(LC_ALL=C sudo -n -u "$user" -- true 2>&1 </dev/null) || leave "$message"
    exec sudo -n -u "$user" -- "$@"
fi

IFS= read -r password
if sudo -k -n -u "$user" -- true >/dev/null 2>&1 </dev/null; then
    IFS= read -r password
    IFS= read -r password
    exec sudo -n -u "$user" -- "$@"
fi

# sudo gets one line only, so that it cannot try the lines that follow as passwords.
message=$(printf '%s\n' "$password" | LC_ALL=C sudo -k -S -p '' -u "$user" -- true 2>&1) ||
    leave "$message"

# sudo reads the second password byte by byte. If it needs none for this command, the lines up to
# the mark are skipped here, before the command starts.
# shellcheck disable=SC2016  # for the shell behind sudo
begin='while IFS= read -r line && [ "$line" != "$0" ]; do :; done; exec "$@"'
exec sudo -k -S -p '' -u "$user" -- sh -c "$begin" "$mark" "$@"
