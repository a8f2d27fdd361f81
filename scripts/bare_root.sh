#!/usr/bin/env bash
# Runs commands in a root file system that has only Debian's essential packages, apt, python3 and g++.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'error: %s\n' "$*" >&2; exit 2; }

usage="usage: sudo scripts/bare_root.sh [COMMAND...]

  Runs each COMMAND in a shell, as an ordinary user, in a root file system that has only Debian's essential packages, apt, python3 and g++, and a
  copy of this checkout without build folders. Without a COMMAND it runs ./demo and then ./test, in the same copy.

  The root has the Debian release of this machine, and its packages come from the same sources. The settings for the network are copied.
  build/bare_root keeps the packages, which the next call uses again, and the root of the last call with everything that the commands built.
  Exit code: that of the first COMMAND that fails; 0 if all passed; 2 if the root cannot be made."
case ${1:-} in
  -h | --help)
    printf '%s\n' "$usage"
    exit 0
    ;;
  -*) fail "unknown option '$1': give a COMMAND, as './test --fast', or --help" ;;
esac
[ "$(id -u)" = 0 ] || fail "only the user root can make and enter a root file system, and this is $(id -un): call the script with sudo"
command -v mmdebstrap >/dev/null || fail "mmdebstrap, which makes the root file system, is not installed: apt-get install mmdebstrap"
[ "$#" -gt 0 ] || set -- ./demo ./test
folder=$PWD/build/bare_root
archive=$folder/root.tar
root=$folder/root
user=person
here=/home/$user/gpuheap

mkdir -p "$folder"
if [ ! -e "$archive" ]; then
  # shellcheck source=/dev/null
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  sources=/etc/apt/sources.list.d/debian.sources
  [ -e $sources ] || sources=/etc/apt/sources.list
  [ -e $sources ] || fail "neither /etc/apt/sources.list.d/debian.sources nor /etc/apt/sources.list says where Debian's packages come from"
  echo "making a root of Debian $release: one to three minutes"
  mmdebstrap --format=tar --variant=apt --include=python3,g++ "$release" "$archive.part" $sources 2>"$folder/mmdebstrap.log" ||
    { tail -n 20 "$folder/mmdebstrap.log" >&2; fail "mmdebstrap cannot make a root of Debian $release: see build/bare_root/mmdebstrap.log"; }
  mv "$archive.part" "$archive"
fi
rm -rf --one-file-system "$root"
mkdir "$root"
tar -C "$root" --numeric-owner -xf "$archive"

# Copies the settings for the network from this machine.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
apt-config dump | grep -E '^Acquire::(.*Proxy|.*CaInfo|Check-Valid-Until|Check-Date)' >"$root/etc/apt/apt.conf.d/90-as-outside" || true
[ ! -e /etc/pip.conf ] || cp -L /etc/pip.conf "$root/etc/"
variables=()
while IFS= read -r -d '' variable; do
  variables+=("$variable")
  path=${variable#*=}
  case $path in
    /*) [ ! -e "$path" ] || { mkdir -p "$root$(dirname "$path")" && cp -rL --no-target-directory "$path" "$root$path"; } ;;
  esac
done < <(env -0 | grep -zE '^(PIP_[A-Z_]+|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|[A-Za-z_]+_(proxy|PROXY))=')

chroot "$root" useradd --create-home --shell /bin/bash $user
mkdir "$root$here"
git ls-files -z -co --exclude-standard | tar --null --ignore-failed-read -T - -cf - | tar -C "$root$here" -xf -
chroot "$root" chown -R $user: "$here"

# The commands run in namespaces of their own, so that all their processes and the mounts end with them.
enter='set -e
root=$1 here=$2 user=$3; shift 3
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
for command in "$@"; do
  echo "== $command"
  chroot "$root" setpriv --reuid="$user" --regid="$user" --init-groups env -i -C "$here" "${variables[@]}" bash -c "$command" || exit
done'
variables+=("HOME=/home/$user" "USER=$user" PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8)
declare -p variables >"$folder/variables.sh"
exec unshare --mount --pid --fork --kill-child bash -c ". '$folder/variables.sh'; $enter" bash "$root" "$here" "$user" "$@"
