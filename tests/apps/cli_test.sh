#!/usr/bin/env bash
# The program as a user meets it: exit codes, messages, streams. Usage: cli_test.sh PACELINE TINY_MODEL
set -u
paceline=$1
tiny=$2
real="${PACELINE_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/paceline/SmolLM2-135M-Instruct.Q4_1.gguf}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# expect CODE WORDS ARGUMENTS...: the exit code, and words that stand on stderr (or, for exit code 0, on stdout).
expect() {
  local code=$1 words=$2
  shift 2
  timeout 60 "$paceline" "$@" >"$work/out" 2>"$work/err"
  local got=$?
  local where=$work/err
  [ "$code" -eq 0 ] && where=$work/out
  if [ "$got" -eq "$code" ] && grep -qF -- "$words" "$where"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: paceline %s\n  exit code %s (%s expected); "%s" expected in:\n' "$*" "$got" "$code" "$words"
    head -c 600 "$where"
  fi
}

generate() { local code=$1 words=$2; shift 2; expect "$code" "$words" generate --model "$tiny" --max-model-len 64 "$@"; }

# What a person tries first.
expect 0 'generate' --help
expect 0 '--kv-cache-dtype' generate --help
expect 0 'paceline 0.' --version
expect 2 'subcommand is required'
expect 2 '--model is required' generate
expect 2 'bogus' generate --model "$tiny" --bogus
expect 0 'llama' info "$tiny"
expect 0 'tokenizer.ggml.model' info --metadata "$tiny"

# Options out of range, each with what is possible.
for option in --max-tokens --max-num-seqs --max-num-batched-tokens --block-size --num-blocks --max-model-len --kv-cache-memory; do
  for value in 0 -5 nan x 1e30; do
    expect 2 "${option}" generate --model "$tiny" --prompt a "$option" "$value"
  done
done
for value in -1 1025 x; do expect 2 '--threads' generate --model "$tiny" --prompt a --threads "$value"; done
for value in -0.1 nan inf; do expect 2 '--temperature' generate --model "$tiny" --prompt a --temperature "$value"; done
for value in 0 1.5 nan -1; do expect 2 '--top-p' generate --model "$tiny" --prompt a --top-p "$value"; done
expect 2 '--seed' generate --model "$tiny" --prompt a --seed -1
expect 2 'float32,float16,bfloat16,fp8_e4m3' generate --model "$tiny" --prompt a --kv-cache-dtype int4
expect 2 'NHD,SHUFFLE' generate --model "$tiny" --prompt a --kv-cache-layout HND
generate 2 'multiple of 8; it is 7' --prompt a --kv-cache-layout SHUFFLE --block-size 7
generate 2 'possible are cpu_simd, ref' --prompt a --attention-kernel magic
expect 2 '2 to 512' generate --model "$tiny" --prompt a --max-model-len 513

# Prompts.
generate 2 'no prompt'
generate 2 'prompt is empty' --prompt ''
generate 2 'the prompt has 64 tokens' --prompt "$(printf 'a%.0s' $(seq 64))"
generate 2 'prompt 2:' --prompt a --prompt ''
generate 2 'no such file' --prompts-file "$work/absent"
generate 2 "not readable" --prompts-file "$work"
printf '\n  \n' >"$work/blank"
generate 2 'every line is blank' --prompts-file "$work/blank"
generate 2 'cache blocks' --prompt "$(printf 'a%.0s' $(seq 40))" --num-blocks 2

# Model files.
head -c 5000 "$tiny" >"$work/short.gguf"
head -c 100 /dev/urandom >"$work/random.gguf"
: >"$work/empty.gguf"
mkfifo "$work/pipe"
for subcommand in "generate --prompt a --model" info; do
  # shellcheck disable=SC2086
  {
    expect 2 'no such file' $subcommand "$work/absent.gguf"
    expect 2 'is a folder' $subcommand "$work"
    expect 2 'is empty' $subcommand "$work/empty.gguf"
    expect 2 'not a regular file' $subcommand /dev/null
    expect 2 'not a regular file' $subcommand "$work/pipe"
    expect 2 'not a GGUF file' $subcommand "$work/random.gguf"
    expect 2 'short.gguf' $subcommand "$work/short.gguf"
  }
done

# It generates: the same text for the same seed, alone or among others, at any chunk budget, in either layout.
sample=(--temperature 1 --top-p 0.9 --seed 7 --max-tokens 20 --ignore-eos --json --quiet)
"$paceline" generate --model "$tiny" --prompt 'one two' --prompt three "${sample[@]}" >"$work/a" || failed=$((failed + 1))
"$paceline" generate --model "$tiny" --prompt 'one two' --prompt three "${sample[@]}" --max-num-batched-tokens 3 \
  --max-num-seqs 1 --kv-cache-layout SHUFFLE --no-graphs --threads 3 >"$work/b" || failed=$((failed + 1))
if cmp -s "$work/a" "$work/b" && [ "$(wc -l <"$work/a")" -eq 2 ]; then passed=$((passed + 1)); else
  failed=$((failed + 1))
  echo 'FAILED: other engine options gave another text'
fi

# An output that cannot be written is a failure.
"$paceline" generate --model "$tiny" --prompt a --quiet >/dev/full 2>"$work/err"
if [ $? -eq 1 ] && grep -q 'could not be written' "$work/err"; then passed=$((passed + 1)); else
  failed=$((failed + 1))
  echo 'FAILED: a full disk was not noticed'
fi

if [ -f "$real" ]; then
  expect 0 'Paris' generate --model "$real" --prompt 'The capital of France is' --max-tokens 8
  # Ctrl-C, once text has come: what was generated stands on stdout.
  "$paceline" generate --model "$real" --prompt 'Once' --max-tokens 5000 --ignore-eos >"$work/out" 2>"$work/err" &
  pid=$!
  for _ in $(seq 600); do
    [ -s "$work/out" ] && break
    sleep 0.1
  done
  kill -INT "$pid"
  wait "$pid"
  if [ $? -eq 130 ] && grep -q interrupted "$work/err" && [ -s "$work/out" ]; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo 'FAILED: Ctrl-C'
  fi
else
  echo 'the SmolLM2 model is not in the cache: two cases are skipped'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
