# Runs one command of a playbook, and stops it with all its children when standard input ends.
# Arguments: seconds between SIGTERM and SIGKILL; then, each "" if not given, the seconds that the
# command may take, chdir, creates, removes; then the command.
# With 0 seconds nothing runs, and status 117 says that the command would. Status 118: not needed,
# because of creates or removes; 119: the command cannot start. Both come with a line that begins
# with "sparkfleet:", because the command itself may exit with any status.
grace=$1 seconds=$2 folder=$3 creates=$4 removes=$5
shift 5

home() {
    # shellcheck disable=SC2088  # the tilde is the user's text
    case $1 in
        "~/"*) printf '%s' "$HOME/${1#"~/"}" ;;
        *) printf '%s' "$1" ;;
    esac
}

exists() {
    IFS=
    for path in $(home "$1"); do
        [ -e "$path" ] && return 0
    done
    return 1
}

leave() {
    printf 'sparkfleet: %s\n' "$2" >&2
    exit "$1"
}

if [ -n "$folder" ]; then
    cd -- "$(home "$folder")" 2>/dev/null || leave 119 "chdir: folder $folder not found"
fi
if [ -n "$creates" ] && (exists "$creates"); then
    leave 118 "$creates exists"
fi
if [ -n "$removes" ] && ! (exists "$removes"); then
    leave 118 "$removes does not exist"
fi
[ "$seconds" = 0 ] && exit 117
[ -n "$seconds" ] && set -- timeout --foreground -k "$grace" "$seconds" "$@"

# This shell leads the process group of the command and its children: sshd and the local connection
# start it in a session of its own.
end_group() {
    trap '' TERM
    kill -TERM 0
    sleep "$grace"
    kill -KILL 0
}

exec 3<&0
"$@" </dev/null 3<&- &
command=$!
{
    read -r _
    end_group
} <&3 >/dev/null 2>&1 &
watch=$!
trap '' TERM
exec 3<&-
wait "$command"
status=$?
if [ -n "$seconds" ] && { [ "$status" = 124 ] || [ "$status" = 137 ]; }; then
    { end_group; } </dev/null >/dev/null 2>&1 & # timeout(1) stops the command, not its children
fi
kill "$watch" 2>/dev/null
exit "$status"
