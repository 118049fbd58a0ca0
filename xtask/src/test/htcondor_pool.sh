#!/bin/sh
# A real HTCondor pool for tests, on this machine and on loopback only: one of each daemon, and two
# startds, one with A100s and one with K40s that do not exist. Needs root and /opt/shipway-htcondor,
# which htcondor.sh makes; that root is shared and nothing in it is changed.
#
#   htcondor_pool.sh up DIR [joined]           starts it; all that it writes is below DIR
#   htcondor_pool.sh in DIR [-u USER] COMMAND  runs a client inside; users are `tester` and `other`
#   htcondor_pool.sh down DIR                  ends it with all it runs
#
# It has namespaces of its own: of mounts, so that the root can be `/` and yet be left as it is; of
# processes, so that the death of the first is the death of all; of networks, so that its ports
# meet nobody's. The id of its first process, as this machine sees it, is in DIR/pid.
#
# When it is joined, its network and its `/tmp` are this machine's: jobs reach servers that listen
# on this machine's loopback, and find their files where they are.
set -eu
root=${SHIPWAY_HTCONDOR_ROOT:-/opt/shipway-htcondor}
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
what=$1
shift

write_config() {
    cat > "$1/config.d/50-test.config" <<'CONFIG'
CONDOR_HOST = 127.0.0.1
use ROLE: CentralManager
use ROLE: Submit
use ROLE: Execute
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
ENABLE_IPV6 = False
COLLECTOR_PORT = 9618
SHARED_PORT_PORT = $(COLLECTOR_PORT)
SCHEDD_NAME = pool.test
SPOOL = /var/lib/condor/spool
UID_DOMAIN = test.local
FILESYSTEM_DOMAIN = test.local
TRUST_UID_DOMAIN = True
SEC_DEFAULT_AUTHENTICATION = REQUIRED
SEC_DEFAULT_INTEGRITY = REQUIRED
SEC_DEFAULT_AUTHENTICATION_METHODS = FS, IDTOKENS
ALLOW_DAEMON = condor@$(UID_DOMAIN) root@$(UID_DOMAIN)
ALLOW_NEGOTIATOR = condor@$(UID_DOMAIN)
ALLOW_ADMINISTRATOR = root@$(UID_DOMAIN) condor@$(UID_DOMAIN)
ALLOW_WRITE = *
ALLOW_READ = *
# Its own intervals are for pools of thousands, not for tests.
SCHEDD_INTERVAL = 2
SCHEDD_MIN_INTERVAL = 1
PERIODIC_EXPR_INTERVAL = 2
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
STARTER_UPDATE_INTERVAL = 2
SHADOW_QUEUE_UPDATE_INTERVAL = 2
UPDATE_INTERVAL = 5
JOB_START_DELAY = 0
RUNBENCHMARKS = 0
# As root it would write this machine's sysctls, which no namespace keeps apart.
ENABLE_KERNEL_TUNING = False
START = True
SUSPEND = False
PREEMPT = False
KILL = False
WANT_SUSPEND = False
NUM_CPUS = 16
MEMORY = 16000
# Cgroups are those of whoever runs the tests.
BASE_CGROUP =
CGROUP_MEMORY_LIMIT_POLICY = none
use FEATURE: GPUs
# Its own pretence: four of the fourth kind that it knows.
GPU_DISCOVERY_EXTRA = -extra -simulate:4,4
STARTD_K40 = $(STARTD)
STARTD_K40_ARGS = -f -local-name STARTD_K40
STARTD_K40.STARTD_NAME = k40
STARTD_K40.STARTD_LOG = $(LOG)/StartLog.k40
STARTD_K40.ADDRESS_FILE = $(LOG)/.startd_k40_address
STARTD_K40.EXECUTE = $(LOCAL_DIR)/lib/condor/execute.k40
STARTD_K40.MACHINE_RESOURCE_INVENTORY_GPUs = /etc/condor/config.d/k40.sh
DAEMON_LIST = $(DAEMON_LIST) STARTD_K40
# The script above is no configuration.
LOCAL_CONFIG_DIR_EXCLUDE_REGEXP = .*\.sh$
CONFIG
    cat > "$1/config.d/k40.sh" <<'GPUS'
#!/bin/sh
cat <<X
DetectedGPUs="GPU-k40aaaa0, GPU-k40aaaa1"
Common=[ Capability=3.5; ClockMhz=745.00; DeviceName="Tesla K40m"; ECCEnabled=true; \
GlobalMemoryMb=11441; CoresPerCU=192; ComputeUnits=15; DriverVersion=11.4; ]
GPU_k40aaaa0=[ id="GPU-k40aaaa0"; DeviceUuid="GPU-k40aaaa0-0000-0000-0000-000000000000"; ]
GPU_k40aaaa1=[ id="GPU-k40aaaa1"; DeviceUuid="GPU-k40aaaa1-0000-0000-0000-000000000000"; ]
X
GPUS
    chmod 755 "$1/config.d/k40.sh"
    [ "$2" = joined ] || return 0
    # The last of a setting holds. Jobs have no `/tmp` of their own.
    cat > "$1/config.d/60-joined.config" <<CONFIG
COLLECTOR_PORT = $(free_port)
MOUNT_UNDER_SCRATCH =
CONFIG
}

# One that nobody listens at. Where to look first is another for each that starts.
free_port() {
    port=$((30000 + $$ % 2000))
    while grep -q "$(printf ':%04X ' "$port")" /proc/net/tcp; do
        port=$((port + 1))
    done
    echo "$port"
}

make_folders() {
    mkdir -p "$1/config.d" "$1/log" "$1/run" "$1/tmp" "$1/home/tester" "$1/home/other"
    mkdir -p "$1/lib/spool" "$1/lib/execute" "$1/lib/execute.k40"
    chmod 1777 "$1/tmp"
    cp "$root/etc/passwd" "$root/etc/group" "$1/"
    echo 'tester:x:1001:1001::/home/tester:/bin/bash' >> "$1/passwd"
    echo 'other:x:1002:1002::/home/other:/bin/bash' >> "$1/passwd"
    printf 'tester:x:1001:\nother:x:1002:\n' >> "$1/group"
    echo '127.0.0.1 pool.test.local pool localhost' > "$1/hosts"
    chown 1001:1001 "$1/home/tester"
    chown 1002:1002 "$1/home/other"
    chmod 700 "$1/home/tester" "$1/home/other"
    condor=$(sed -n 's/^condor:[^:]*:\([0-9]*:[0-9]*\):.*/\1/p' "$1/passwd")
    chown -R "$condor" "$1/log" "$1/lib" "$1/run"
}

# The first process of the pool: what it mounts, only the pool sees.
first() {
    dir=$1
    # Still this machine's `/proc`, so that the number is one that this machine knows.
    read -r pid rest < /proc/self/stat
    mount --bind "$root" "$root"
    cd "$root"
    mount -t proc proc proc
    mount --rbind /dev dev
    mount --rbind /sys sys
    mount --bind "$dir/config.d" etc/condor/config.d
    mount --bind "$dir/passwd" etc/passwd
    mount --bind "$dir/group" etc/group
    mount --bind "$dir/hosts" etc/hosts
    mount --bind "$dir/home" home
    mount --bind "$2" tmp
    mount -t tmpfs -o mode=755 none run
    mkdir run/condor run/lock run/lock/condor
    chown --reference="$dir/run" run/lock/condor
    mount --bind "$dir/run" run/condor
    mount --bind "$dir/log" var/log/condor
    mount --bind "$dir/lib" var/lib/condor
    # All that is mounted on it stays writable; the root itself does not.
    mount -o remount,bind,ro "$root"
    pivot_root . .
    umount -l .
    cd /
    [ "$2" = /tmp ] || loopback_up
    # A name that it finds in its own file: it waits a minute for one that nobody knows.
    echo pool > /proc/sys/kernel/hostname
    echo "$pid" > /run/condor/first.pid
    condor_master -f &
    # Whatever happens to the master, the pool lives until somebody ends it.
    while :; do wait || :; sleep 1; done
}

# What `ip link set lo up` does; iproute2 is not everywhere.
loopback_up() {
    perl -e '
        use Socket;
        socket(my $s, AF_INET, SOCK_DGRAM, 0) or die "socket: $!";
        my $up = pack("a16 s x22", "lo", 0x41);
        ioctl($s, 0x8914, $up) or die "SIOCSIFFLAGS: $!";'
}

case $what in
up)
    dir=$(realpath "$1")
    [ -x "$root/usr/bin/condor_submit" ] || { echo "no HTCondor in $root" >&2; exit 1; }
    make_folders "$dir"
    write_config "$dir" "${2:-alone}"
    case ${2:-} in
    joined) net=''; tmp=/tmp ;;
    *) net=--net; tmp=$dir/tmp ;;
    esac
    # shellcheck disable=SC2086
    setsid unshare --mount --propagation private --pid --fork $net --uts --ipc \
        sh "$0" first "$dir" "$tmp" > "$dir/first.log" 2>&1 < /dev/null &
    unshared=$!
    for _ in $(seq 300); do
        [ -s "$dir/run/first.pid" ] && break
        kill -0 "$unshared" 2> /dev/null || break
        sleep 0.1
    done
    cp "$dir/run/first.pid" "$dir/pid" || { cat "$dir/first.log" >&2; exit 1; }
    for _ in $(seq 150); do
        slots=$(timeout 5 sh "$0" in "$dir" condor_status -af Name 2> /dev/null | wc -l)
        [ "$slots" -ge 2 ] && timeout 5 sh "$0" in "$dir" condor_q > /dev/null 2>&1 && break
        sleep 0.2
    done
    [ "$slots" -ge 2 ] || { echo "no machines came" >&2; sh "$0" down "$dir"; exit 1; }
    echo "a pool is up; sh $0 in $dir -u tester condor_status"
    ;;
first)
    first "$1" "$2"
    ;;
in)
    dir=$1
    shift
    pid=$(cat "$dir/pid")
    user=root
    if [ "$1" = -u ]; then user=$2; shift 2; fi
    home=/root
    [ "$user" = root ] || home=/home/$user
    # Inside there are the users of the pool; HOME is where its clients look for tokens.
    exec nsenter -t "$pid" -m -p -n -i -u setpriv --reuid="$user" --regid="$user" --init-groups \
        env -i HOME="$home" USER="$user" PATH=/usr/bin:/usr/sbin:/bin:/sbin "$@"
    ;;
down)
    [ -s "$1/pid" ] || exit 0
    pid=$(cat "$1/pid")
    # The first of a namespace of processes takes all others with it.
    kill -KILL "$pid" 2> /dev/null || :
    for _ in $(seq 200); do
        kill -0 "$pid" 2> /dev/null || break
        sleep 0.05
    done
    rm -f "$1/pid"
    ;;
*) usage ;;
esac
