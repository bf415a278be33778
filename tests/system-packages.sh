#!/bin/sh
# Installs the Debian packages that the tests use and that are missing: shellcheck, Chromium, an SSH server, Slurm.
set -eu
missing=
for package in shellcheck chromium openssh-server openssh-client rsync; do
  dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
if [ -n "$missing" ]; then
  [ "$(id -u)" = 0 ] || { echo "error: as root: apt-get install$missing" >&2; exit 2; }
  echo "==> apt-get install$missing: about 1 minute"
  # The packages' own daemons must not start.
  [ -e /usr/sbin/policy-rc.d ] || { printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d; }
  apt-get update -qq
  # shellcheck disable=SC2086  # a list of words
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
exec "$(dirname "$0")/slurm/cluster.sh" install
