#!/bin/bash
# A real Slurm cluster of N "nodes" on this one machine, as root and without systemd, for the tests marked `slurm`.
#
#   cluster.sh install         the Debian packages that are missing
#   cluster.sh start [N]       N nodes (default 8); does nothing when exactly that is up
#   cluster.sh stop            ends every daemon and job of the lab
#   cluster.sh status          daemons, partitions, jobs
#   cluster.sh env             `eval "$(cluster.sh env)"` points this shell's Slurm commands at the lab
#   cluster.sh kill WHAT       WHAT: node3 (slurmd, slurmstepd and tasks), slurmd3 (slurmd alone), ctld, dbd
#   cluster.sh up WHAT         starts it again
#
# Settings, from the environment:
#   CLOUDAI_RUN_LAB        state folder, default /run/cloudai-run-lab (Unix socket paths hold 108 bytes: keep it short)
#   CLOUDAI_RUN_LAB_PORT   first TCP port on loopback addresses, default 17000 (PORT-2 .. PORT+N are used)
#   CLOUDAI_RUN_LAB_GPUS   made-up GPUs of a node, default 8
#   CLOUDAI_RUN_LAB_CPUS   made-up CPU cores of a node, default 64
#   CLOUDAI_RUN_LAB_IMPORT_MS   how long the import of a container takes, default 0
#
# Real: munge, MariaDB, slurmdbd, slurmctld, slurmd, sbatch, srun, sacct, PMIx.
# Stand-ins: pyxis (pyxis_standin.c), enroot and nsys (bin/), the GPUs (/dev/null by another name).
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
LAB=${CLOUDAI_RUN_LAB:-/run/cloudai-run-lab}
PORT=${CLOUDAI_RUN_LAB_PORT:-17000}
GPUS=${CLOUDAI_RUN_LAB_GPUS:-8}
CPUS=${CLOUDAI_RUN_LAB_CPUS:-64}
IMPORT_MS=${CLOUDAI_RUN_LAB_IMPORT_MS:-0}
HOST=$(hostname -s)
export SLURM_CONF=$LAB/etc/slurm.conf
SOCKET=$LAB/run/mysql.sock
STARTED=$EPOCHREALTIME
PACKAGES=(slurmctld slurmd slurm-client slurmdbd slurm-wlm-mysql-plugin mariadb-server munge libslurm-dev
  slurm-wlm-basic-plugins-dev libpmix2 libpmix-dev gcc libc6-dev procps hostname openssh-server openssh-client rsync)

say() { awk -v a="$STARTED" -v b="$EPOCHREALTIME" -v m="$*" 'BEGIN { printf "%6.2fs %s\n", b - a, m }'; }
die() { echo "error: $*" >&2; exit 2; }
pid_of() { [ -s "$LAB/run/$1.pid" ] && cat "$LAB/run/$1.pid"; }
alive() { local pid; pid=$(pid_of "$1") && kill -0 "$pid" 2>/dev/null; }
wait_until() { # SECONDS COMMAND...
  local tries=$(($1 * 20)) i
  shift
  for ((i = 0; i < tries; i++)); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.05
  done
  die "timed out waiting for: $* (logs: $LAB/log)"
}
nodes_ready() { [ "$(sinfo -h -t idle,mix,alloc -o %D 2>/dev/null)" = "$1" ]; }
node_usable() { sinfo -h -n "$1" -o %T | grep -qE '^(idle|mixed|allocated)$'; }

install_packages() {
  local missing=() package
  for package in "${PACKAGES[@]}"; do
    dpkg -s "$package" 2>/dev/null | grep -q 'Status: install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || die "as root: apt-get install ${missing[*]}"
  echo "==> apt-get install ${missing[*]}: about 30 seconds"
  # The packages' own daemons must not start.
  [ -e /usr/sbin/policy-rc.d ] || { printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d; }
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

configure() { # N
  local nodes=$1 k gpu
  mkdir -p "$LAB"/{etc,run,log,state,dev,spool,db,nodetmp,containers,images,bin}
  chmod 755 "$LAB"
  for ((gpu = 0; gpu < GPUS; gpu++)); do # gres wants character devices
    [ -e "$LAB/dev/nvidia$gpu" ] || mknod -m 666 "$LAB/dev/nvidia$gpu" c 1 3
  done
  cat >"$LAB/etc/slurm.conf" <<CONF
ClusterName=lab
SlurmctldHost=$HOST(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# cred_expire=5: a requeued job is eligible again in seconds, not in two minutes.
AuthInfo=socket=$LAB/run/munge.sock,cred_expire=5
SlurmctldPort=$((PORT - 2))
SlurmctldPidFile=$LAB/run/ctld.pid
SlurmdPidFile=$LAB/run/%n.pid
SlurmdSpoolDir=$LAB/spool/%n
StateSaveLocation=$LAB/state
SlurmctldLogFile=$LAB/log/slurmctld.log
SlurmdLogFile=$LAB/log/%n.log
SlurmdParameters=config_overrides
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1
ReturnToService=2
KillWait=2
# A lost node is noticed in seconds; the default is five minutes.
SlurmdTimeout=6
InactiveLimit=0
TreeWidth=65533
MpiDefault=none
PlugStackConfig=$LAB/etc/plugstack.conf
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((PORT - 1))
AccountingStoragePass=$LAB/run/munge.sock
AccountingStorageTRES=gres/gpu
NodeName=node[1-$nodes] NodeHostname=$HOST NodeAddr=127.0.0.1 Port=[$((PORT + 1))-$((PORT + nodes))] CPUs=$CPUS Boards=1 SocketsPerBoard=2 CoresPerSocket=$((CPUS / 2)) ThreadsPerCore=1 RealMemory=1000000 Gres=gpu:$GPUS State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  cat >"$LAB/etc/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$LAB/run/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((PORT - 1))
SlurmUser=root
PidFile=$LAB/run/dbd.pid
LogFile=$LAB/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
CONF
  chmod 600 "$LAB/etc/slurmdbd.conf"
  echo "Name=gpu File=$LAB/dev/nvidia[0-$((GPUS - 1))]" >"$LAB/etc/gres.conf"
  # All nodes share one /tmp, so PMIx needs a folder of each node's own: start_node binds one there.
  echo "PMIxCliTmpDirBase=$LAB/nodetmp" >"$LAB/etc/mpi.conf"
  : >"$LAB/etc/cgroup.conf"
  {
    cat /etc/hosts
    for ((k = 1; k <= nodes; k++)); do echo "127.0.$((1 + k / 250)).$((1 + k % 250)) node$k"; done
  } >"$LAB/etc/hosts"
  # For a job whose disk is full. The nodes see mounts that were there before them.
  mkdir -p "$LAB/small"
  mountpoint -q "$LAB/small" || mount -t tmpfs -o size=1m small "$LAB/small"
  build_standins
}

build_standins() {
  [ "$LAB/pyxis_standin.so" -nt "$HERE/pyxis_standin.c" ] ||
    gcc -O1 -Wall -shared -fPIC -o "$LAB/pyxis_standin.so" "$HERE/pyxis_standin.c"
  [ "$LAB/bin/pmix_hello" -nt "$HERE/pmix_hello.c" ] ||
    gcc -O1 -Wall -I/usr/lib/x86_64-linux-gnu/pmix2/include -o "$LAB/bin/pmix_hello" "$HERE/pmix_hello.c" \
      -L/usr/lib/x86_64-linux-gnu/pmix2/lib -lpmix -Wl,-rpath,/usr/lib/x86_64-linux-gnu/pmix2/lib
  # An overlay's upper layer must not lie on the filesystem that holds /.
  mountpoint -q "$LAB/containers" || mount -t tmpfs -o size=512m containers "$LAB/containers"
  # scope=global is pyxis's own default, and the one that a fixed container name falls for.
  echo "required $LAB/pyxis_standin.so state=$LAB/containers images=$LAB/images scope=global delay_ms=$IMPORT_MS" >"$LAB/etc/plugstack.conf"
  # The lab's scripts stand beside the binaries, so that one folder on PATH gives all stand-ins.
  install -m 755 "$HERE/bin/nsys" "$HERE/bin/enroot" "$LAB/bin/"
}

start_munge() {
  [ -s "$LAB/etc/munge.key" ] || (umask 077; head -c 128 /dev/urandom >"$LAB/etc/munge.key")
  munged --force --key-file="$LAB/etc/munge.key" --socket="$LAB/run/munge.sock" --pid-file="$LAB/run/munge.pid" \
    --log-file="$LAB/log/munged.log" --seed-file="$LAB/run/munge.seed" --num-threads=4 2>>"$LAB/log/munged.err"
}

start_database() {
  if [ ! -d "$LAB/db/mysql" ]; then
    mariadb-install-db --no-defaults --user=root --datadir="$LAB/db" --skip-test-db \
      --auth-root-authentication-method=socket >"$LAB/log/mariadb-install.log" 2>&1
  fi
  mariadbd --no-defaults --user=root --datadir="$LAB/db" --socket="$SOCKET" --pid-file="$LAB/run/mariadb.pid" \
    --skip-networking --innodb-buffer-pool-size=24M --innodb-log-file-size=16M --innodb-lock-wait-timeout=900 \
    --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --skip-log-bin --performance-schema=OFF \
    --log-error="$LAB/log/mariadb.log" </dev/null >/dev/null 2>&1 &
  wait_until 30 test -S "$SOCKET"
}

start_dbd() {
  MYSQL_UNIX_PORT=$SOCKET slurmdbd # it reads the slurmdbd.conf beside SLURM_CONF
  wait_until 30 sacctmgr -n list cluster
  sacctmgr -n list cluster format=cluster | grep -qw lab || sacctmgr -iQ add cluster lab >/dev/null
}

start_ctld() {
  slurmctld -f "$SLURM_CONF"
  wait_until 30 scontrol ping
}

start_node() { # K: a slurmd with a host name, an /etc/hosts and a PMIx folder of its own
  mkdir -p "$LAB/spool/node$1/tmp"
  unshare --uts --mount sh -c "hostname node$1
    mount --bind $LAB/etc/hosts /etc/hosts
    mount --bind $LAB/spool/node$1/tmp $LAB/nodetmp
    exec slurmd -f $SLURM_CONF -N node$1" </dev/null >>"$LAB/log/slurmd-start.log" 2>&1 &
}

all_alive() { # the daemons beside the nodes' own
  local part
  for part in munge mariadb dbd ctld; do alive "$part" || return 1; done
}

start() { # N
  local nodes=$1 k want="nodes=$1 gpus=$GPUS cpus=$CPUS port=$PORT import_ms=$IMPORT_MS"
  if [ "$(cat "$LAB/run/want" 2>/dev/null)" = "$want" ] && all_alive && nodes_ready "$nodes"; then
    build_standins
    say "already up: $nodes nodes"
    return
  fi
  [ "$(id -u)" = 0 ] || die "the lab's nodes have namespaces of their own, which needs root"
  command -v slurmctld >/dev/null || die "no slurmctld here: run $0 install"
  stop
  configure "$nodes"
  start_munge
  start_database
  start_dbd
  start_ctld
  for ((k = 1; k <= nodes; k++)); do start_node "$k"; done
  wait_until 120 nodes_ready "$nodes"
  echo "$want" >"$LAB/run/want"
  say "up: $nodes nodes, SLURM_CONF=$SLURM_CONF"
}

# Ends a process by its pid file, and waits; after 5 s the hard way.
end() { # NAME [SIGNAL]
  local pid i
  pid=$(pid_of "$1") || return 0
  kill "-${2:-TERM}" "$pid" 2>/dev/null || true
  for ((i = 0; i < 100; i++)); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  kill -KILL "$pid" 2>/dev/null || true
  rm -f "$LAB/run/$1.pid"
}

# A node is its UTS namespace: the slurmd, each slurmstepd and every task in it.
end_nodes() { # K...
  local k pid process space
  local -A spaces=()
  for k; do
    if pid=$(pid_of "node$k") && space=$(readlink "/proc/$pid/ns/uts"); then spaces[$space]=1; fi
    rm -f "$LAB/run/node$k.pid"
  done
  [ ${#spaces[@]} -gt 0 ] || return 0
  for process in /proc/[0-9]*; do
    if space=$(readlink "$process/ns/uts" 2>/dev/null) && [ -n "${spaces[$space]:-}" ]; then
      kill -KILL "${process#/proc/}" 2>/dev/null || true
    fi
  done
}

stop() {
  local file name i nodes=()
  [ -d "$LAB/run" ] || return 0
  if alive ctld; then
    timeout 10 scancel -Q -u root 2>/dev/null || true
    for ((i = 0; i < 100; i++)); do
      [ -z "$(timeout 5 squeue -h 2>/dev/null)" ] && break
      sleep 0.05
    done
  fi
  for file in "$LAB"/run/node*.pid; do
    [ -e "$file" ] || continue
    name=${file##*/node}
    nodes+=("${name%.pid}")
  done
  end_nodes "${nodes[@]}"
  for name in ctld dbd mariadb munge; do end "$name"; done
  rm -f "$LAB"/run/*.pid "$LAB"/run/want "$LAB"/run/*.sock* "$LAB"/log/*.log
  rm -rf "$LAB/spool"
  for name in containers small; do
    if mountpoint -q "$LAB/$name"; then umount -l "$LAB/$name"; fi
  done
  say stopped
}

kill_part() {
  case $1 in
    node[0-9]*)
      alive "$1" || die "$1 is not up"
      end_nodes "${1#node}"
      ;;
    slurmd[0-9]*) end "node${1#slurmd}" KILL ;;
    # A slurmctld that is killed the hard way forgets the jobs of its last seconds.
    ctld) end ctld ;;
    dbd) end dbd KILL ;;
    *) die "kill what? node3, slurmd3, ctld or dbd" ;;
  esac
}

up_part() {
  case $1 in
    node[0-9]* | slurmd[0-9]*)
      local k=${1#node}
      k=${k#slurmd}
      alive "node$k" || start_node "$k"
      wait_until 60 node_usable "node$k"
      ;;
    ctld) alive ctld || start_ctld ;;
    dbd) alive dbd || start_dbd ;;
    *) die "start what? node3, ctld or dbd" ;;
  esac
}

status() {
  local file name
  for file in "$LAB"/run/*.pid; do
    name=$(basename "$file" .pid)
    alive "$name" && printf '%s=%s ' "$name" "$(cat "$file")"
  done
  echo
  sinfo -o '%P %D %T %G %C'
  squeue
}

case ${1:-status} in
  install) install_packages ;;
  start) start "${2:-8}" ;;
  stop) stop ;;
  status) status ;;
  env) printf 'export SLURM_CONF=%q PATH=%q:"%sPATH"\n' "$SLURM_CONF" "$LAB/bin" '$' ;;
  kill) kill_part "${2:-}" ;;
  up) up_part "${2:-}" ;;
  *) sed -n '2,21p' "$0"; exit 2 ;;
esac
