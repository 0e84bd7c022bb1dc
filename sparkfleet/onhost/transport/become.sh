# Runs a command as another user through sudo. Arguments: the user, a mark or "", the command.
# Without a mark sudo must not ask for a password. With one, standard input begins with the password
# of this login, twice, and the mark, a line each; the command gets what comes after them.
# Where sudo refuses: status 116, its words on stderr; a wrong password is tried once.
user=$1 mark=$2
shift 2

leave() {
    printf 'sparkfleet: %s\n' "$1" >&2
    exit 116
}

command -v sudo >/dev/null || leave "sudo is not installed"

if [ -z "$mark" ]; then
    said=$(LC_ALL=C sudo -n -u "$user" -- true 2>&1 </dev/null) || leave "$said"
    exec sudo -n -u "$user" -- "$@"
fi

IFS= read -r password
if sudo -k -n -u "$user" -- true >/dev/null 2>&1 </dev/null; then
    IFS= read -r password
    IFS= read -r password
    exec sudo -n -u "$user" -- "$@"
fi

# After the one line sudo's input ends, so that it cannot try what follows as passwords.
said=$(printf '%s\n' "$password" | LC_ALL=C sudo -k -S -p '' -u "$user" -- true 2>&1) ||
    leave "$said"

# Sudo takes the second password, byte by byte. Should it want none for this command, the lines up
# to the mark are passed over here, before the command begins.
# shellcheck disable=SC2016  # for the shell behind sudo
begin='while IFS= read -r line && [ "$line" != "$0" ]; do :; done; exec "$@"'
exec sudo -k -S -p '' -u "$user" -- sh -c "$begin" "$mark" "$@"
