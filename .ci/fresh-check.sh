#!/usr/bin/env bash
# Builds a bare Debian root and runs `make studio`, then `make test` in it, nothing else.
# Needs root and debootstrap. FRESH_ROOT and FRESH_SUITE choose the place and the release.
# APT and pip settings of this machine are copied, for machines behind mirrors.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${FRESH_SUITE:-bookworm}
root=${FRESH_ROOT:-$(mktemp -d)}
mirror=${FRESH_MIRROR:-$(awk '/^deb / {print $2; exit} /^URIs:/ {print $2; exit}' \
  /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true)}

[ -e "$root/usr/bin/make" ] ||
  debootstrap --variant=minbase --include=python3,make,ca-certificates "$suite" "$root" "$mirror"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
for settings in /etc/apt/apt.conf.d /etc/apt/sources.list /etc/apt/sources.list.d /etc/pip.conf \
  /etc/ssl/certs /usr/share/ca-certificates /usr/local/share/ca-certificates \
  "$HOME/.npmrc" "$HOME/.config/pip"; do
  if [ -e "$settings" ]; then
    mkdir -p "$root$(dirname "$settings")"
    cp -a "$settings" "$root$(dirname "$settings")/"
  fi
done

mkdir -p "$root/proc" "$root/dev" "$root/sys" "$root/project"
for mount in proc dev sys; do
  mount --rbind "/$mount" "$root/$mount"
  mount --make-rslave "$root/$mount" # unmounting there must not reach this machine
done
cleanup() { for mount in proc dev sys; do umount -l "$root/$mount" || true; done; }
trap cleanup EXIT
rm -rf "$root/project"
mkdir -p "$root/project"
git archive HEAD | tar -x -C "$root/project"

inside() {
  env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 $(env | grep -E '^(PIP_|NPM_CONFIG_|npm_config_|https?_proxy=|no_proxy=|SSL_CERT|REQUESTS_CA|NODE_EXTRA)' || true) \
    chroot "$root" bash -c "cd /project && $1"
}
inside "make studio"
inside "ls -la out"
inside "make test"
echo "fresh-check: both commands passed on a bare $suite"
