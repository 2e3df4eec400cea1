#!/usr/bin/env bash
# The installed package serves projects outside of the tree, and the tree serves add_subdirectory.
# Usage: package_test.sh SOURCE_DIR BUILD_DIR CMAKE GENERATOR
set -eu
source=$1 build=$2 cmake=$3 generator=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/prefix/bin/paceline" --version

for example in embed embed_c; do
  cp -r "$source/examples/$example" "$work/$example" # outside of the tree: it sees the prefix alone
  "$cmake" -G "$generator" -S "$work/$example" -B "$work/$example/build" \
    -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release >"$work/log" || { cat "$work/log"; exit 1; }
  "$cmake" --build "$work/$example/build" >"$work/log" || { cat "$work/log"; exit 1; }
  echo "== $example"
  "$work/$example/build/$example"
done

# Only configured: the objects are those of the build.
mkdir "$work/inside"
cat >"$work/inside/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.22)
project(inside LANGUAGES CXX)
add_subdirectory("$source" paceline)
foreach(target paceline engine support_table base_test)
  if(TARGET \${target})
    message(FATAL_ERROR "\${target} is not for projects that only use the library")
  endif()
endforeach()
file(WRITE "\${CMAKE_BINARY_DIR}/inside.cc" "int main() {}\n")
add_executable(inside "\${CMAKE_BINARY_DIR}/inside.cc")
target_link_libraries(inside PRIVATE paceline::paceline)
CMAKE
"$cmake" -G "$generator" -S "$work/inside" -B "$work/inside/build" >"$work/log" || { cat "$work/log"; exit 1; }
echo "package: ok"
