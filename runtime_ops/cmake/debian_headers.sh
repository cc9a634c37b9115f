#!/bin/sh
# Unpacks Debian's package libonnxruntime-dev into FOLDER, without root and without touching the system:
# apt uses separate package lists and sources: those of the machine, with another suite.
# Usage: debian_headers.sh FOLDER [APT_FOLDER]        (APT_FOLDER: folder of the sources, default /etc/apt)
set -eu

folder=$1
apt_folder=${2:-/etc/apt}
here=$(cd "$(dirname "$0")" && pwd)
suite=trixie # Debian 13, the first release with this package

rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/apt/sources"
cd "$folder"
trap 'rm -rf "$folder/apt"' EXIT

# Both formats of sources. A format without sources leaves an empty file, which apt accepts.
cat "$apt_folder"/sources.list "$apt_folder"/sources.list.d/*.list 2>/dev/null |
  awk -v suite=$suite -f "$here/debian_sources_list.awk" >apt/sources/debian.list
for file in "$apt_folder"/sources.list.d/*.sources; do
  if [ -e "$file" ]; then cat "$file"; echo; fi
done | awk -v suite=$suite -f "$here/debian_sources_deb822.awk" >apt/sources/debian.sources

# The unprivileged user of apt cannot write here. Timeouts keep a machine without network from waiting for minutes.
apt() {
  apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$folder/apt/sources" \
    -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache" \
    -o APT::Sandbox::User=root -o Acquire::Languages=none \
    -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 "$@"
}
apt update
cd apt
apt download libonnxruntime-dev
dpkg-deb -x libonnxruntime-dev_*.deb "$folder"
test -f "$folder/usr/include/onnxruntime/onnxruntime_c_api.h"
