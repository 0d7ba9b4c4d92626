#!/usr/bin/env bash
# Makes sure of what the system itself must bring: `system.sh python|qt|chromium|firefox|webkit|phone|postgres|vulkan [PYTHON]`.
# As root on Debian or Ubuntu it installs; else it names what is missing in one sentence.
set -euo pipefail

need() { # need WHAT PACKAGE...
  local what=$1
  shift
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing $what through apt." >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  else
    echo "Missing: $what. Install these packages (Debian's names), then run make again: $*" >&2
    exit 1
  fi
}

available() { # the first of the names that apt knows
  for name in "$@"; do
    if apt-cache show "$name" >/dev/null 2>&1; then
      echo "$name"
      return
    fi
  done
  echo "$1"
}

case $1 in
python)
  "$2" -c 'import sys; assert sys.version_info >= (3, 10)' 2>/dev/null || need "Python 3.10 or newer" python3
  "$2" -c 'import ensurepip, venv' 2>/dev/null || need "Python's venv module" python3-venv
  ;;
qt)
  folder=$("$2" -c 'import PySide6; print(PySide6.__path__[0])')
  missing=$({
    ldd "$folder"/Qt/lib/libQt6WebEngineCore.so.6 "$folder"/Qt/lib/libQt6Widgets.so.6 \
      "$folder"/Qt/plugins/platforms/libqxcb.so 2>/dev/null || true
  } | awk '/not found/ {print $1}' | sort -u)
  fonts=$(find /usr/share/fonts -name "*.[to]tf" -print -quit 2>/dev/null || true)
  if [ "$(uname)" = Linux ] && { [ -n "$missing" ] || [ -z "$fonts" ]; }; then
    [ "$(id -u)" = 0 ] && apt-get update -qq
    need "libraries or fonts for QtWebEngine ($(echo $missing))" \
      libnss3 libnspr4 libdbus-1-3 libfontconfig1 libfreetype6 libegl1 libgl1 libopengl0 \
      libx11-6 libx11-xcb1 libxcomposite1 libxdamage1 libxext6 libxfixes3 libxrandr2 libxtst6 \
      libxkbcommon0 libxkbcommon-x11-0 libxkbfile1 libxshmfence1 libgbm1 libdrm2 libxi6 libsm6 \
      libxcb1 libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 \
      libxcb-render0 libxcb-render-util0 libxcb-shape0 libxcb-shm0 libxcb-sync1 libxcb-xfixes0 \
      libxcb-xinerama0 libxcb-xkb1 libxrender1 \
      "$(available libasound2t64 libasound2)" "$(available libglib2.0-0t64 libglib2.0-0)" \
      fonts-dejavu-core
  fi
  ;;
chromium)
  for name in chromium chromium-browser google-chrome google-chrome-stable microsoft-edge; do
    command -v "$name" >/dev/null && exit 0
  done
  [ "$(uname)" = Linux ] || exit 0
  need "Chromium for the end-to-end tests" chromium
  ;;
firefox)
  for name in firefox firefox-esr; do
    command -v "$name" >/dev/null && exit 0
  done
  [ "$(uname)" = Linux ] || exit 0
  need "Firefox for the end-to-end tests" "$(available firefox-esr firefox)"
  ;;
webkit)
  if [ "$(uname)" = Linux ]; then
    command -v WebKitWebDriver >/dev/null && command -v Xvfb >/dev/null ||
      need "WebKitGTK and a hidden display for tests of WebKit" webkit2gtk-driver xvfb
  fi
  ;;
phone)
  command -v certutil >/dev/null && [ -n "$(PATH=$PATH:/usr/sbin:/sbin command -v ip)" ] && exit 0
  [ "$(uname)" = Linux ] || exit 0
  need "a network and a certificate store for the phone that tests play" iproute2 libnss3-tools
  ;;
postgres)
  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && exit 0
  command -v initdb >/dev/null && exit 0
  [ "$(uname)" = Linux ] || exit 0
  need "PostgreSQL for the tests of the commons' server" postgresql
  ;;
vulkan)
  [ "$(uname)" = Linux ] || exit 0
  drivers=$(find /usr/share/vulkan/icd.d /etc/vulkan/icd.d -name "lvp_icd*" -print -quit 2>/dev/null || true)
  loaders=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p)
  if [ -z "$drivers" ] || [[ $loaders != *libvulkan.so.1* ]]; then
    need "Vulkan in software (lavapipe) for the tests of the GPU bridge" mesa-vulkan-drivers libvulkan1
  fi
  ;;
esac
