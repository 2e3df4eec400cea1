#!/usr/bin/env bash
# scripts/demo hands its options on as the user gave them. Usage: demo_test.sh SOURCE_DIR
set -u
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# A copy of the scripts in a tree whose build, packages and program are stand-ins: the program prints its
# folder and arguments, one a line.
mkdir -p "$work/tree/scripts" "$work/tree/build/release/bin" "$work/cache" "$work/user"
cp "$source"/scripts/demo "$work/tree/scripts/"
{
  cat "$source/scripts/lib.sh"
  echo 'install_packages() { :; }'
  echo 'build() { :; }'
  echo 'get_model() { echo "model fetched" >&2; }'
} >"$work/tree/scripts/lib.sh"
printf '#!/bin/sh\necho "in $PWD"\nprintf "<%%s>\\n" "$@"\n' >"$work/tree/build/release/bin/paceline"
chmod +x "$work/tree/build/release/bin/paceline"

# check FETCHED EXPECTED ARGUMENTS...: the program's arguments after "generate", and whether a model was fetched.
check() {
  local fetched=$1 expected=$2
  shift 2
  local out
  out=$(cd "$work/user" && XDG_CACHE_HOME=$work/cache "$work/tree/scripts/demo" "$@" 2>"$work/err") || failed=1
  local got=no
  grep -q 'model fetched' "$work/err" && got=yes
  if [ "$out" != "in $work/user
<generate>
$expected" ] || [ $got != "$fetched" ]; then
    failed=1
    printf 'FAILED: demo %s\n%s\nmodel fetched: %s\n' "$*" "$out" "$got"
  fi
}

default_model="<--model>
<$work/cache/paceline/SmolLM2-135M-Instruct.Q4_1.gguf>"
default_prompt="<--prompt>
<The capital of France is>"
check yes "$default_model
$default_prompt"
check yes "$default_model
<--prompt=a b>" "--prompt=a b"
check yes "$default_model
<-p>
<>" -p ""
check yes "$default_model
<-fx.txt>" -fx.txt
check no "$default_prompt
<--model=m.gguf>
<--json>" --model=m.gguf --json
check no "<-m>
<>
<--prompts-file>
<->" -m "" --prompts-file -

"$work/tree/scripts/demo" --help >"$work/out" && grep -q 'XDG_CACHE_HOME' "$work/out" && grep -q 'scripts/demo \[--model' "$work/out" || {
  failed=1
  echo 'FAILED: demo --help'
}
exit $failed
