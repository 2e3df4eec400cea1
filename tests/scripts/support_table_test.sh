#!/usr/bin/env bash
# docs/SUPPORT.md is what the dispatch table says. Usage: support_table_test.sh SOURCE_DIR PROGRAM
set -eu
if ! "$2" | diff -u "$1/docs/SUPPORT.md" -; then
  echo "docs/SUPPORT.md is out of date: run scripts/support-table" >&2
  exit 1
fi
