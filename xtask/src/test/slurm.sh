# A Slurm of one's own for tests: munge with a key of its own, a controller and four nodes on this
# machine, all on loopback and all in one folder. Nothing else on the machine changes. Needs root
# and Debian's slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins and munge.
#
#   sh slurm.sh up DIR [accounts]  starts it and prints the path of its slurm.conf; with accounts it
#                                  has a database of jobs, for which it needs slurmdbd,
#                                  mariadb-server-core and mariadb-client-core too, and forgets
#                                  those that have ended within a minute
#   sh slurm.sh up DIR rest        with a slurmrestd too, for which it needs slurmrestd and
#                                  slurm-wlm-jwt-plugin: at $DIR/rest/socket as the account daemon,
#                                  and for whoever has a token at the address in $DIR/rest/url
#   sh slurm.sh up DIR slices      n3 has two slices of the kind 1g.10gb instead of its GPUs
#   sh slurm.sh up DIR "rest slices"  both
#   sh slurm.sh down DIR           ends its jobs, then its daemons, by their process ids
#   sh slurm.sh controller DIR start|stop
#                                  the controller alone: nobody answers while it is stopped
#
# n1 and n2 have four GPUs of the kind a100, n3 two k40, n4 none; all of them are this machine, and
# their GPUs are other names of /dev/null. Partitions: main (all nodes, the default), gpu (n1 to
# n3), short (n4, at most two minutes), and closed, which is down.
set -eu
verb=${1:?up, down or controller}
dir=${2:?a folder}
export SLURM_CONF="$dir/slurm.conf"
# Debian's slurmctld and slurmd lie where people's shells do not look.
PATH=$PATH:/usr/sbin:/sbin

# Whether it is to be started with that.
wanted=
wants() {
    case " $wanted " in
    *" $1 "*) return 0 ;;
    esac
    return 1
}

# Whether what wrote this file lives; one that has ended and that nobody waits for does not.
alive() {
    [ -s "$1" ] && lives "$(cat "$1" 2>/dev/null)"
}

lives() {
    state=$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) && [ "$state" != Z ]
}

# Ends what wrote this file, and waits for it: politely for ten seconds. It may remove the file
# before it lets go of its port.
end() {
    alive "$1" || return 0
    pid=$(cat "$1")
    kill "$pid" || true
    tries=0
    while lives "$pid"; do
        tries=$((tries + 1))
        [ "$tries" -ne 100 ] || kill -KILL "$pid" 2>/dev/null || true
        [ "$tries" -lt 120 ] || return 1
        sleep 0.1
    done
    rm -f "$1"
}

# The first of ten ports in a row that nobody listens at. Where to look first is another for each
# that starts.
free_ports() {
    first=$((20000 + $$ % 1000 * 10))
    while busy "$first"; do
        first=$((first + 10))
    done
    echo "$first"
}

busy() {
    for offset in 0 1 2 3 4 5 6 7; do
        hex=$(printf ':%04X ' $(($1 + offset)))
        ! grep -q "$hex" /proc/net/tcp || return 0
    done
    return 1
}

configure() {
    # SlurmctldTimeout and the like stay as they are: a slow machine must not lose nodes. A job that
    # names no memory would get a whole node without DefMemPerCPU, and an empty value is fatal.
    here='NodeHostname=localhost NodeAddr=127.0.0.1'
    accounting="AccountingStorageType=accounting_storage/none
MinJobAge=300"
    ! wants accounts || accounting="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$(($1 + 5))
AccountingStoragePass=$dir/munge/socket
MinJobAge=2"
    tokens=
    kind=k40
    ! wants slices || kind=1g.10gb
    ! wants rest || tokens="AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$dir/jwt.key"
    cat > "$dir/slurm.conf" <<CONF
ClusterName=shipway
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
$tokens
CredType=cred/munge
SlurmctldPort=$1
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=1
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
$accounting
JobCompType=jobcomp/none
DefMemPerCPU=50
InactiveLimit=0
KillWait=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
NodeName=DEFAULT CPUs=16 RealMemory=8000 State=UNKNOWN
NodeName=n1 $here Port=$(($1 + 1)) Gres=gpu:a100:4 Feature=gpu,a100
NodeName=n2 $here Port=$(($1 + 2)) Gres=gpu:a100:4 Feature=gpu,a100
NodeName=n3 $here Port=$(($1 + 3)) Gres=gpu:$kind:2 Feature=gpu,k40 MemSpecLimit=1000
NodeName=n4 $here Port=$(($1 + 4)) Feature=cpu
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes=n[1-3] MaxTime=7-12:00:00 State=UP
PartitionName=short Nodes=n4 MaxTime=00:02:00 State=UP
PartitionName=closed Nodes=n4 State=DOWN
CONF
    cat > "$dir/gres.conf" <<CONF
AutoDetect=off
NodeName=n[1-2] Name=gpu Type=a100 File=$dir/nvidia[0-3]
NodeName=n3 Name=gpu Type=$kind File=$dir/nvidia[0-1]
CONF
    # Nothing here is kept apart by control groups, and tests' machines differ in them.
    case $(slurmctld -V) in
    *" 22."*) echo CgroupAutomount=no ;;
    *) echo CgroupPlugin=disabled ;;
    esac > "$dir/cgroup.conf"
}

start_munge() {
    [ -s "$dir/munge/key" ] || head -c 128 /dev/urandom > "$dir/munge/key"
    chmod 400 "$dir/munge/key"
    chown -R munge:munge "$dir/munge"
    chmod 711 "$dir/munge"
    alive "$dir/munge/pid" || setpriv --reuid=munge --regid=munge --clear-groups \
        munged --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
        --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed"
}

# The database of jobs: slurmdbd, on a MariaDB that has nothing else.
start_accounts() {
    [ -d "$dir/database" ] || mariadb-install-db --no-defaults --user=root \
        --datadir="$dir/database" --auth-root-authentication-method=normal --skip-test-db \
        > "$dir/log/database.log" 2>&1
    mariadbd --no-defaults --user=root --datadir="$dir/database" --socket="$dir/database.socket" \
        --bind-address=127.0.0.1 --port=$(($1 + 6)) --pid-file="$dir/run/database.pid" \
        --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 \
        >> "$dir/log/database.log" 2>&1 &
    tries=0
    until query 'select 1'; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail
        sleep 0.1
    done
    query "create database if not exists slurm_acct_db;
        create user if not exists slurm@'127.0.0.1' identified by 'test';
        create user if not exists slurm@'localhost' identified by 'test';
        grant all on slurm_acct_db.* to slurm@'127.0.0.1';
        grant all on slurm_acct_db.* to slurm@'localhost';"
    cat > "$dir/slurmdbd.conf" <<CONF
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$(($1 + 5))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$(($1 + 6))
StorageUser=slurm
StoragePass=test
StorageLoc=slurm_acct_db
LogFile=$dir/log/slurmdbd.log
PidFile=$dir/run/slurmdbd.pid
CONF
    chmod 600 "$dir/slurmdbd.conf"
    slurmdbd
    until sacctmgr --noheader --parsable2 show cluster > /dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || fail
        sleep 0.1
    done
}

# It refuses to be root, and whoever reaches its socket is who it is.
start_rest() {
    mkdir -p "$dir/rest"
    chown daemon:daemon "$dir/rest"
    chmod 700 "$dir/rest"
    echo "http://127.0.0.1:$1" > "$dir/rest/url"
    as_daemon='setpriv --reuid=daemon --regid=daemon --clear-groups'
    # What asks the database ends it where there is none.
    case $(slurmctld -V) in
    *" 22."*) what=openapi/v0.0.38 ;;
    *) what=slurmctld ;;
    esac
    $as_daemon slurmrestd -s $what -a rest_auth/local "unix:$dir/rest/socket" \
        > "$dir/log/slurmrestd.local.log" 2>&1 &
    echo $! > "$dir/run/slurmrestd.local.pid"
    SLURM_JWT=daemon $as_daemon slurmrestd -s $what -a rest_auth/jwt "127.0.0.1:$1" \
        > "$dir/log/slurmrestd.jwt.log" 2>&1 &
    echo $! > "$dir/run/slurmrestd.jwt.pid"
    hex=$(printf ':%04X ' "$1")
    tries=0
    until [ -S "$dir/rest/socket" ] && grep -q "$hex" /proc/net/tcp; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || fail
        sleep 0.1
    done
}

query() {
    mariadb --no-defaults --user=root --socket="$dir/database.socket" --execute="$1" \
        > /dev/null 2>&1
}

fail() {
    tail -n 20 "$dir"/log/*.log >&2
    exit 1
}

idle_nodes() {
    timeout 20 sinfo --noheader --Node --partition=main --states=idle --format=%N 2>&1 |
        grep -c '^n'
}

up() {
    mkdir -p "$dir/munge" "$dir/state" "$dir/spool" "$dir/log" "$dir/run"
    # Accounts other than this one, munge's among them, have files of theirs below it.
    chmod 755 "$dir" "$dir/state" "$dir/spool" "$dir/log" "$dir/run"
    # Slurm counts plain files as devices too, and then tells no job which ones it got.
    for number in 0 1 2 3; do
        [ -e "$dir/nvidia$number" ] || mknod "$dir/nvidia$number" c 1 3
    done
    first=$(free_ports)
    [ -s "$dir/slurm.conf" ] || configure "$first"
    if wants rest && [ ! -s "$dir/jwt.key" ]; then
        (umask 077 && head -c 32 /dev/urandom > "$dir/jwt.key")
    fi
    start_munge
    ! wants accounts || start_accounts "$first"
    alive "$dir/run/slurmctld.pid" || slurmctld || fail
    for node in n1 n2 n3 n4; do
        mkdir -p "$dir/spool/$node"
        alive "$dir/run/slurmd.$node.pid" || slurmd -N "$node" || fail
    done
    tries=0
    until [ "$(idle_nodes)" = 4 ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail
        sleep 0.1
    done
    ! wants rest || start_rest $((first + 7))
    echo "$dir/slurm.conf"
}

down() {
    # Daemons that end leave jobs alone; so these end first, by somebody who can end them.
    if alive "$dir/run/slurmd.n1.pid"; then
        alive "$dir/run/slurmctld.pid" || slurmctld || true
        for user in root daemon; do
            timeout 20 scancel --user=$user 2>/dev/null || true
        done
        tries=0
        while [ -n "$(timeout 20 squeue --noheader 2>/dev/null)" ] && [ "$tries" -lt 100 ]; do
            tries=$((tries + 1))
            sleep 0.2
        done
    fi
    end "$dir/run/slurmrestd.local.pid"
    end "$dir/run/slurmrestd.jwt.pid"
    for node in n1 n2 n3 n4; do
        end "$dir/run/slurmd.$node.pid"
    done
    end "$dir/run/slurmctld.pid"
    end "$dir/run/slurmdbd.pid"
    end "$dir/run/database.pid"
    end "$dir/munge/pid"
}

case $verb in
up)
    wanted=${3:-}
    up
    ;;
down) down ;;
controller)
    case ${3:?start or stop} in
    start) slurmctld || fail ;;
    stop) end "$dir/run/slurmctld.pid" ;;
    esac
    ;;
*) echo "no such verb: $verb" >&2; exit 2 ;;
esac
