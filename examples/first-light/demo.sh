#!/usr/bin/env bash
# Start a cluster on this machine in a temporary directory, run a job on it, and remove everything.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
export PIT_HOME="$scratch/pit" HOME="$scratch"
export GIT_CONFIG_GLOBAL="$scratch/gitconfig" GIT_CONFIG_NOSYSTEM=1
trap 'pit down --stop >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT

if [ -t 1 ]; then bold=$'\033[1m' green=$'\033[32m' plain=$'\033[0m'; else bold='' green='' plain=''; fi

caption() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }

show() { # print the command as a user would type it, then run it
    local typed='' word
    for word in "$@"; do
        case $word in *[!A-Za-z0-9_./=:-]*) word="'$word'" ;; esac
        typed+="$word "
    done
    printf '%s$ %s%s\n' "$green" "${typed% }" "$plain"
    "$@"
}

caption "Start a head and a worker on this machine, in the background."
show pit up

caption "A git project with two committed files, one of them modified, and an untracked file."
git config --global user.name "Anna" && git config --global user.email "anna@example.org"
git config --global init.defaultBranch main && git config --global advice.detachedHead false
git init --quiet --bare "$scratch/origin.git"
git clone --quiet "$scratch/origin.git" "$scratch/project" 2>/dev/null
cd "$scratch/project"
cp "$here/compute.sh" .compute
echo 0.1 >rate.txt
git add .compute rate.txt && git commit --quiet -m "A first model" && git push --quiet
echo 0.01 >rate.txt
cp "$here/meet.py" meet.py
show git status --short

caption "Run it as two processes and follow the log. The job gets exactly the files that are on disk now."
show pit run "First light" '2:[]' -l

caption "Look at the job."
show pit status
show pit show 1

caption "Download the results."
show pit download 1
show tar -tzf job-1.tar.gz
show tar -xzOf job-1.tar.gz job-1/keep/answer.txt

caption "Stop the cluster."
show pit down
