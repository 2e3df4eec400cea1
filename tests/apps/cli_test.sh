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
expect 2 'a subcommand is required; possible are generate, info'
expect 2 "'bogus' is no subcommand; possible are generate, info" bogus
expect 2 'paceline generate --help' generate --model "$tiny" --bogus
expect 2 '--model is required' generate
expect 2 'bogus' generate --model "$tiny" --bogus
expect 0 'llama' info "$tiny"
expect 0 'tokenizer.ggml.model' info --metadata "$tiny"

# Options out of range, each with what is possible.
for option in --max-tokens --max-num-seqs --max-num-batched-tokens --block-size --num-blocks --max-model-len --kv-cache-memory; do
  for value in 0 -5 nan x 1e30 ' 5' +3 0x10 ''; do
    expect 2 "${option}" generate --model "$tiny" --prompt a "$option" "$value"
  done
done
for value in -1 1025 x; do expect 2 '--threads' generate --model "$tiny" --prompt a --threads "$value"; done
for value in -0.1 nan inf; do expect 2 '--temperature' generate --model "$tiny" --prompt a --temperature "$value"; done
for value in 0 1.5 nan -1; do expect 2 '--top-p' generate --model "$tiny" --prompt a --top-p "$value"; done
expect 2 '0 to 18446744073709551615' generate --model "$tiny" --prompt a --seed -1
expect 2 '1 to 2147483647' generate --model "$tiny" --prompt a --max-tokens 2147483648
expect 2 'float32, float16, bfloat16, fp8_e4m3' generate --model "$tiny" --prompt a --kv-cache-dtype int4
expect 2 'NHD, SHUFFLE' generate --model "$tiny" --prompt a --kv-cache-layout HND
expect 2 '--kv-cache-memory excludes --num-blocks' generate --model "$tiny" --prompt a --num-blocks 9 --kv-cache-memory 1
generate 2 'a name is needed' --prompt a --attention-kernel ''
generate 2 'too large' --prompt a --num-blocks 2147483647
generate 0 '' --prompt a --max-tokens 2 --kv-cache-dtype bf16 --kv-cache-layout shuffle --quiet
generate 2 'multiple of 8; it is 7' --prompt a --kv-cache-layout SHUFFLE --block-size 7
generate 2 'possible are cpu_simd, ref' --prompt a --attention-kernel magic
expect 2 '2 to 512' generate --model "$tiny" --prompt a --max-model-len 513

# Prompts.
generate 2 'no prompt'
generate 2 'prompt is empty' --prompt ''
generate 2 'the prompt has 64 tokens' --prompt "$(printf 'a%.0s' $(seq 64))"
generate 2 'prompt 2:' --prompt a --prompt ''
generate 2 'no such file' --prompts-file "$work/absent"
generate 2 'no such file' --prompts-file ''
generate 2 'is a folder' --prompts-file "$work"
generate 2 'not a regular file' --prompts-file /dev/zero
generate 2 'not a regular file' --prompts-file /dev/full
: >"$work/empty"
generate 2 'is empty' --prompts-file "$work/empty"
generate 2 'standard input is empty' --prompts-file - </dev/null
generate 2 'more than 64 MiB' --prompts-file - </dev/zero
printf '\n  \n' >"$work/blank"
generate 2 'every line is blank' --prompts-file "$work/blank"
printf '\xff\xfea\0' >"$work/utf16"
generate 2 'UTF-16' --prompts-file "$work/utf16"
printf 'a\n\n\n%064d\n' 0 >"$work/long"
generate 2 "$work/long, line 4: the prompt has 64 tokens" --prompts-file "$work/long"
generate 2 'is too small: one request of 64 tokens' --prompt a --num-blocks 2

# A file from Windows gives the same prompts.
printf 'one\ntwo\n' >"$work/unix"
printf '\xef\xbb\xbfone\r\ntwo\r\n' >"$work/windows"
for file in unix windows; do
  "$paceline" generate --model "$tiny" --prompts-file "$work/$file" --max-tokens 5 --json --quiet >"$work/$file.out"
done
if cmp -s "$work/unix.out" "$work/windows.out" && grep -q '"prompt":"one"' "$work/unix.out"; then passed=$((passed + 1)); else
  failed=$((failed + 1))
  echo 'FAILED: CRLF and BOM'
fi

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

# Weights that are no numbers, with everything before the weights intact.
cp "$tiny" "$work/corrupt.gguf"
size=$(stat -c %s "$tiny")
head -c 4096 /dev/zero | tr '\0' '\377' | dd of="$work/corrupt.gguf" bs=1 seek=$((size - 8192)) conv=notrunc status=none
for temperature in 0 1; do
  expect 2 'not finite numbers' generate --model "$work/corrupt.gguf" --prompt a --temperature $temperature
done
# What generate refuses, info refuses too, and says why.
LC_ALL=C sed 's/blk\.0\.attn_k\.weight/blk.0.attn_x.weight/' "$tiny" >"$work/missing.gguf"
for subcommand in "generate --prompt a --model" info; do
  # shellcheck disable=SC2086
  expect 2 "tensor 'blk.0.attn_k.weight'" $subcommand "$work/missing.gguf"
done

# An output that cannot be written is a failure.
for arguments in "generate --model $tiny --prompt a --quiet" "info $tiny" --help "generate --help" --version; do
  for stdout in /dev/full closed; do
    # shellcheck disable=SC2086
    if [ $stdout = closed ]; then "$paceline" $arguments >&- 2>"$work/err"; else "$paceline" $arguments >/dev/full 2>"$work/err"; fi
    if [ $? -eq 1 ] && grep -q 'could not be written' "$work/err"; then passed=$((passed + 1)); else
      failed=$((failed + 1))
      echo "FAILED: paceline $arguments, stdout $stdout: not noticed"
    fi
  done
done

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
