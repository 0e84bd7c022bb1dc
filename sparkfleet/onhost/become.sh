# Runs a command as another user through sudo, which must not ask for a password.
# Arguments: the user, then the command. Where sudo refuses: status 116, its words on stderr.
user=$1
shift
if ! said=$(LC_ALL=C sudo -n -u "$user" -- true 2>&1 </dev/null); then
    printf 'sparkfleet: %s\n' "$said" >&2
    exit 116
fi
exec sudo -n -u "$user" -- "$@"
