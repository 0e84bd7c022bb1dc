# Runs one command of a playbook; ends it, with all its children, when standard input ends.
# Arguments: seconds that it may take, chdir, creates, removes (each "" if not given), the command.
# With 0 seconds it only tells, by status 117, that the command would run. Status 118: creates or
# removes say that it need not; 119: it cannot start. Both come with a line marked as ours, since
# the command may end with any status itself.
seconds=$1 folder=$2 creates=$3 removes=$4
shift 4

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
    cd -- "$(home "$folder")" 2>/dev/null || leave 119 "there is no folder $folder to run it in"
fi
if [ -n "$creates" ] && (exists "$creates"); then
    leave 118 "$creates exists"
fi
if [ -n "$removes" ] && ! (exists "$removes"); then
    leave 118 "there is no $removes"
fi
[ "$seconds" = 0 ] && exit 117
[ -n "$seconds" ] && set -- timeout --foreground -k 5 "$seconds" "$@"

# This shell leads a process group, in which the command and its children are: sshd and the local
# link start it in a session of its own.
end_group() {
    trap '' TERM
    kill -TERM 0
    sleep 5
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
    { end_group; } </dev/null >/dev/null 2>&1 & # timeout(1) has ended the command, no children
fi
kill "$watch" 2>/dev/null
exit "$status"
