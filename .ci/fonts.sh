#!/bin/sh
# Makes resources/fonts from the Debian packages fonts-inter and fonts-jetbrains-mono (SIL Open
# Font License): the weights and characters that the window uses, without hints. Needs fonttools.
set -eu
out=$(cd "$(dirname "$0")/.." && pwd)/resources/fonts
work=$(mktemp -d)
cd "$work"
apt-get download "fonts-inter=4.0~beta7+ds-1" "fonts-jetbrains-mono=2.242+ds-3"
for package in *.deb; do dpkg-deb -x "$package" .; done
subset() {
  pyftsubset "usr/share/fonts/$1" --output-file="$out/$2" --no-hinting --desubroutinize \
    --name-IDs="*" --layout-features=kern,mark,mkmk,ccmp,tnum,zero \
    --unicodes=U+20-7E,U+A0-17F,U+391-3C9,U+2010-2027,U+2030-205E,U+2070-209C,U+20AC,U+2122,U+2190-23FF,U+2500-26FF,U+2713-2718
}
subset opentype/inter/Inter-Regular.otf inter_regular.otf
subset opentype/inter/Inter-Medium.otf inter_medium.otf
subset opentype/inter/Inter-SemiBold.otf inter_semibold.otf
subset truetype/jetbrains-mono/JetBrainsMono-Regular.ttf mono_regular.ttf
subset truetype/jetbrains-mono/JetBrainsMono-SemiBold.ttf mono_semibold.ttf
{
  echo "Inter: Copyright 2016-2022 The Inter Project Authors (https://github.com/rsms/inter)"
  echo "JetBrains Mono: Copyright 2020 The JetBrains Mono Project Authors"
  echo "(https://github.com/JetBrains/JetBrainsMono)"
  echo
  echo "Subsets of both, under the SIL Open Font License, version 1.1:"
  echo
  sed -n '/^License: OFL-1.1$/,/^[A-Z]/p' usr/share/doc/fonts-inter/copyright | sed '1d; s/^ \.$//; s/^ //; /^License:/d; /^Files:/d'
} > "$out/OFL.txt"
rm -r "$work"
