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
[ -n "$seconds" ] && set -- timeout -k 5 "$seconds" "$@"

# This shell leads a process group: sshd and the local link start it in a session of its own.
# timeout(1) makes a group for itself, hands on what it is sent, and kills it after 5 s as well.
exec 3<&0
"$@" </dev/null 3<&- &
command=$!
{
    read -r _
    trap '' TERM # the end of the command must not end this
    kill -TERM 0 "$command"
    sleep 5
    kill -KILL 0
} <&3 >/dev/null 2>&1 &
watch=$!
trap '' TERM
exec 3<&-
wait "$command"
status=$?
kill "$watch" 2>/dev/null
exit "$status"
