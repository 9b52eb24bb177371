#!/bin/sh
# Runs a command while holding a lock of Postern, and stops it if the lock is lost. Needs only a POSIX shell and curl.
#
#   with-lock.sh [-w SECONDS] [-E CODE] [-m SECONDS] [-k SECONDS] [-t SECONDS] NAME COMMAND [ARGUMENT…]
#
#   -w  how long to wait in line for the lock (55; 0: take it only if it is free)
#   -E  the exit code if the lock is not acquired in that time (75)
#   -m  the longest hold: the command is stopped after that time (no limit)
#   -k  after a command is stopped, how long it may take to end before it is killed (5)
#   -t  the TTL of the lease (15, at least 10): how long a machine that dies keeps the lock
#
# Options come before the name; everything after the command belongs to it.
#
# POSTERN_URL (http://127.0.0.1:7070) may name several replicas, separated by spaces. The credential is POSTERN_API_KEY, or the first line of
# POSTERN_API_KEY_FILE, which is read for each request. POSTERN_NAMESPACE is the namespace. The command finds FENCING_TOKEN in its environment.
#
# Exit codes: the command's own, or 64 wrong usage, 69 no gateway answered at that URL, 75 lock not acquired, 76 command stopped because the lock was lost or
# revoked or was held for too long, 77 the credential is missing, unreadable or wrong, or may not take this lock.
#
# The hold ends when the command does: anything that it left running in the background continues without the lock. INT, TERM and HUP are passed on to the
# command and everything it has started; then, and also when the command is stopped, the hold ends when all of these processes have ended.
#
# When the lock may be lost: the TTL counts from when the last answered heartbeat was sent, because the gateway frees a hold no earlier. After two thirds of
# it without another answer the command gets TERM, after five sixths KILL, so that it is dead before anybody else can hold the lock.
set -u

NOT_ACQUIRED=75 LOST=76 FORBIDDEN=77 USAGE=64 NO_GATEWAY=69
ROUND=2000       # hundredths of a second: of a long wait, what one request asks for
PATIENCE=10      # seconds for which a request that could not be served is repeated even by those who do not wait
newline='
'

say() { echo "with-lock.sh: $*" >&2; }
die() { # CODE SENTENCE
  code=$1
  shift
  say "$@"
  end_lease
  exit "$code"
}
usage() { die "$USAGE" "$1${newline}usage: with-lock.sh [-w SECONDS] [-E CODE] [-m SECONDS] [-k SECONDS] [-t SECONDS] NAME COMMAND [ARGUMENT...]"; }

# Sets `now`, in hundredths of a second. Time that nobody sets goes by /proc/uptime, which a suspended machine does not stop; elsewhere by the clock.
now() {
  if [ -r /proc/uptime ]; then
    read -r now _ </proc/uptime
    now=$((${now%.*} * 100 + 1${now#*.} - 100))
  else
    now=$(($(date +%s) * 100))
  fi
}
nap() { sleep 0.5 >/dev/null 2>&1 || sleep 1 >/dev/null 2>&1; } # not on our standard error: who waits for its end would wait for the sleep

member() { printf '%s\n' "$body" | sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^\",}]*\\).*/\\1/p"; } # NAME: of the answer

read_key() { # fails when it is none
  key=${POSTERN_API_KEY:-}
  if [ -n "${POSTERN_API_KEY_FILE:-}" ]; then read -r key <"$POSTERN_API_KEY_FILE" || [ -n "$key" ] || return; fi
  case $key in *[!A-Za-z0-9._~+/=-]*) key='' && return 1 ;; esac
}
# Sets `settings` to what curl is to do, for its standard input: neither `ps` nor a file shows secrets so.
prepare() { # METHOD PATH [BODY, its quotes escaped]
  read_key
  settings="url = \"${urls%% *}$2\"
request = \"$1\"
header = \"Content-Type: application/json\"
data = \"${3:-}\"
connect-timeout = 3"
  [ -z "$key" ] || settings="$settings${newline}header = \"Authorization: Bearer $key\""
  [ -z "${POSTERN_NAMESPACE:-}" ] || settings="$settings${newline}header = \"Namespace: $POSTERN_NAMESPACE\""
}
ask() { # SECONDS, in a subshell: the answer and, in a line of its own, the status; 000 with the reason when there is none
  export LC_ALL=C
  exec curl -sS -m "$1" -w '\n%{http_code}' -K - 2>&1 <<SETTINGS
$settings
SETTINGS
}
as_lease() { settings="$settings${newline}header = \"Lease-Token: $token\""; }
understand() { # ANSWER: sets `status` and `body`
  status=${1##*"$newline"} body=${1%"$newline"*}
  # Another replica may serve what this one does not.
  case $status in 000 | 429 | 5??) case $urls in *' '*) urls="${urls#* } ${urls%% *}" ;; esac ;; esac
}

end_lease() {
  [ -n "$token" ] || return 0
  prepare DELETE /v1/leases/self
  as_lease
  token=''
  (ask 5 >/dev/null)
}

# Sets `token` and `fencing_token`, or exits.
acquire() {
  request_id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  label=$(hostname 2>/dev/null | tr -cd 'A-Za-z0-9._-')
  now
  wait_until=$((now + wait * 100)) patient_until=$((now + PATIENCE * 100))
  [ "$wait_until" -le "$patient_until" ] || patient_until=$wait_until
  while :; do
    now
    left=$((wait_until > now ? wait_until - now : 0))
    # The first request does not wait: whoever waits has a token, with which a place can be given up.
    if [ -z "$token" ] && [ "$left" -gt 0 ]; then round=0 keep=true
    elif [ "$left" -gt "$ROUND" ]; then round=$ROUND keep=true
    else round=$left keep=false; fi
    # Sent again with the same requestId it finds what it did before, its place in line or the lock.
    prepare POST "/v1/locks/$name/acquire" "{\\\"lease\\\":{\\\"ttlMs\\\":${ttl}000,\\\"label\\\":\\\"$label\\\"},\
\\\"requestId\\\":\\\"$request_id\\\",\\\"waitMs\\\":$((round * 10)),\\\"keepPlace\\\":$keep}"
    # A gateway whose ZooKeeper hangs answers so after its own time-out, of 10 seconds by default.
    ask $((round / 100 + 15)) >&5 &
    asking=$!
    wait "$asking"
    understand "$(cat <&6)"
    case $status in
      200 | 202) token=$(member leaseToken) ;;
    esac
    case $status in
      200)
        fencing_token=$(member fencingToken)
        [ -z "$token" ] || [ -z "$fencing_token" ] || return 0
        die "$NO_GATEWAY" "what answers at $POSTERN_URL is no gateway: $body"
        ;;
      202) [ "$round" = 0 ] || nap ;;
      400 | 413 | 422) die "$USAGE" "$body" ;;
      401 | 403) die "$FORBIDDEN" "$name may not be taken with this credential: $body" ;;
      409) case $body in *'"lock-held"'*) die "$taken" "somebody else holds $name: $body" ;; esac ;;
      000 | 410 | 429 | 5??) ;;
      404 | 405 | 3??) die "$NO_GATEWAY" "what answers at $POSTERN_URL has no locks at that path ($status): $body" ;;
      *) die "$NOT_ACQUIRED" "the answer to the request for $name was $status: $body" ;;
    esac
    if [ "$status" != 202 ]; then
      now
      if [ "$now" -ge "$patient_until" ]; then
        [ "$status" != 000 ] || die "$NO_GATEWAY" "no gateway at $POSTERN_URL: $body"
        die "$NOT_ACQUIRED" "$name was not acquired; the last answer was $status: $body"
      fi
      nap
      nap
    fi
  done
}

# A heartbeat. Sets `sent` when it was answered, and `news`: '', lost, asked (back) or due (it will be taken).
beat() {
  now
  asked_at=$now news=''
  # Not beyond the moment at which the command has to be stopped.
  bound=$((ttl * 100 / 6)) time_left=$((sent + ttl * 200 / 3 - now))
  if [ "$sent" -gt 0 ] && [ "$time_left" -lt "$bound" ]; then bound=$((time_left > 10 ? time_left : 10)); fi
  prepare POST /v1/leases/self/heartbeat
  as_lease
  understand "$(ask "$((bound / 100)).$((bound % 100 / 10))")"
  [ "$status" != 410 ] || news=lost
  [ "$status" = 200 ] || return
  case $body in
    *'"leaseId":'*'"lost":'* | *'"lost":'*'"leaseId":'*) sent=$asked_at ;;
    *) return ;; # not of a gateway
  esac
  case $body in *'"leaseToken":'*) token=$(member leaseToken) ;; esac
  case $body in *'"revocations":[]'*) ;; *'"breakAt":'*) news=due ;; *) news=asked ;; esac
  case $body in *'"lost":[]'*) ;; *) news=lost ;; esac
}

signal() { kill -s "$1" -- "-$job" 2>/dev/null || kill -s "$1" "$job" 2>/dev/null; } # NAME: to all that the command has started
alive() { signal 0; }

# Keeps the hold as long as the command runs, and stops that when the hold is over. Its exit code says whether it did.
keep() {
  trap '' INT TERM HUP # whoever sends them to all processes of a service must not end the heartbeats before the command
  stopped='' kill_at=''
  while alive; do
    now
    if [ "$news" != lost ]; then
      [ $((now - sent)) -lt $((ttl * 20)) ] || beat
      now
      case $news in
        lost) stop 'the lock was lost' $((now + ttl * 100 / 6)) ;;
        due) stop 'the lock is being taken back' $((now + patience * 100)) ;;
        asked) stop 'the lock was asked back' $((now + patience * 100)) ;;
      esac
      if [ $((now - sent)) -ge $((ttl * 200 / 3)) ]; then
        news=lost
        stop "no heartbeat was answered for $(((now - sent) / 100)) seconds" $((sent + ttl * 250 / 3))
      fi
      if [ -n "$longest" ] && [ $((now - started)) -ge $((longest * 100)) ]; then
        stop "the lock was held for $longest seconds" $((started + (longest + patience) * 100))
      fi
    fi
    if [ -n "$kill_at" ] && [ "$now" -ge "$kill_at" ]; then signal KILL; fi
    nap
  done
  [ -z "$stopped" ] || exit "$LOST"
}
stop() { # WHY [WHEN to kill]
  if [ -z "$stopped" ]; then
    stopped=yes
    trap '' USR1 # it says itself when all is over
    say "$1: stopping the command"
    signal TERM
  fi
  if [ -n "${2:-}" ] && { [ -z "$kill_at" ] || [ "$2" -lt "$kill_at" ]; }; then kill_at=$2; fi
}

# A group of its own for the command, so that what it starts is stopped with it. Shells let what runs in the background ignore INT.
run() {
  interrupt=TERM
  if command -v setsid >/dev/null; then
    if env --default-signal=INT true 2>/dev/null; then
      interrupt=INT
      env --default-signal=INT,QUIT setsid "$@" <&3 3<&- 5>&- 6<&- &
    else
      setsid "$@" <&3 3<&- 5>&- 6<&- &
    fi
  elif [ ! -t 0 ] && (set -m) 2>/dev/null; then
    interrupt=INT
    set -m
    "$@" <&3 3<&- 5>&- 6<&- &
    set +m
  else
    "$@" <&3 3<&- 5>&- 6<&- &
  fi
  job=$!
}
caught() { # SIGNAL
  interrupted=$1
  if [ -n "$job" ]; then
    passed=yes
    if [ "$1" = INT ]; then signal "$interrupt"; else signal "$1"; fi
  elif [ -z "$starting" ]; then
    if [ -n "$token" ]; then
      kill "$asking" 2>/dev/null
    elif [ -n "$asking" ]; then # the first request, which does not wait: its answer says what has to be ended
      wait "$asking"
      answer=$(cat <&6)
      [ -z "$answer" ] || understand "$answer"
      token=$(member leaseToken)
    fi
    end_lease
    trap - "$1"
    kill -s "$1" $$
  fi
}
await() { # PROCESS: its exit code, whatever signals come meanwhile
  while :; do
    interrupted=''
    wait "$1" 2>/dev/null # some shells tell of signals
    awaited=$?
    [ -n "$interrupted" ] || return "$awaited"
  done
}

# Shells read numbers with leading zeros as octal.
number() { # OPTION VALUE
  case $2 in '' | 0?* | *[!0-9]* | ???????*) usage "-$1 is \"$2\"; it must be a number from 0 to 999999, without leading zeros" ;; esac
}

token='' job='' asking='' starting='' passed='' body='' sent=0
wait=55 taken=$NOT_ACQUIRED longest='' patience=5 ttl=15
case ${1:-} in --help) set -- -h ;; esac
while getopts hw:E:m:k:t: option; do
  case $option in
    h) sed -n '2,/^set -u/{s/^# \{0,1\}//p;}' "$0" && exit ;;
    w) number w "$OPTARG" && wait=$OPTARG ;;
    E) number E "$OPTARG" && taken=$OPTARG ;;
    m) number m "$OPTARG" && longest=$OPTARG ;;
    k) number k "$OPTARG" && patience=$OPTARG ;;
    t) number t "$OPTARG" && ttl=$OPTARG ;;
    *) usage 'there is no such option' ;;
  esac
done
shift $((OPTIND - 1))
[ "$ttl" -ge 10 ] || usage "-t is \"$ttl\"; it must be 10 or more"
[ $# -ge 2 ] || usage 'a name and a command are needed'
name=$1
shift
[ "$1" != -- ] || shift
case ${1:-} in '' | -*) usage "\"${1:-}\" is no command; options stand before the name" ;; esac
case $name in '' | *[!A-Za-z0-9._~-]*) usage "\"$name\" is no name of a lock: letters, digits and . _ ~ - are" ;; esac
case ${POSTERN_NAMESPACE:-} in *[!A-Za-z0-9._~-]*) usage "POSTERN_NAMESPACE is \"$POSTERN_NAMESPACE\", which is no name" ;; esac
command -v curl >/dev/null || usage 'curl is needed'
if [ -n "${POSTERN_API_KEY_FILE:-}" ] && [ ! -r "$POSTERN_API_KEY_FILE" ]; then die "$FORBIDDEN" "POSTERN_API_KEY_FILE is \"$POSTERN_API_KEY_FILE\", which cannot be read"; fi
read_key || usage 'the API key is none: letters, digits and . _ ~ + / = - are'
POSTERN_URL=${POSTERN_URL:-http://127.0.0.1:7070}
urls=$(printf '%s\n' "$POSTERN_URL" | sed -e 's,//* , ,g' -e 's,//*$,,')

exec 3<&0 # the command's: what runs in the background would read nothing
# What curl answers in the background comes through a file that has no name any more, and so leaves nothing behind.
answers=$(mktemp) || die "$NOT_ACQUIRED" 'no temporary file'
# shellcheck disable=SC2094 # written and read in turns
exec 5>"$answers" 6<"$answers"
rm -f "$answers"

trap 'caught INT' INT
trap 'caught TERM' TERM
trap 'caught HUP' HUP
acquire
# The answer may have been long on its way: the command begins with a heartbeat of which it is known when it was sent.
until beat && [ "$sent" -gt 0 ] && [ -z "$news" ]; do
  now
  case $status$news in 200?* | 410*) die "$NOT_ACQUIRED" "$name was lost before the command began" ;; esac
  [ "$now" -lt "$((patient_until + PATIENCE * 100))" ] || die "$NOT_ACQUIRED" "no heartbeat was answered; the last answer was $status: $body"
  nap
done

export FENCING_TOKEN="$fencing_token"
now
started=$now starting=yes interrupted=''
run "$@"
[ -z "$interrupted" ] || caught "$interrupted"
keep 3<&- 5>&- 6<&- >/dev/null &
keeper=$!
await "$job"
result=$?
# A shell ends at once when it is told to; what it runs may take longer.
if [ -n "$passed" ]; then while alive; do nap; done; fi
{ kill -s USR1 "$keeper"; await "$keeper"; } 2>/dev/null # bash tells of its end, before the wait if that comes first
[ $? != "$LOST" ] || result=$LOST
end_lease
exit "$result"
