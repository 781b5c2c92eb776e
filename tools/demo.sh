#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on a real trace: traffic -> measurements -> cost model -> menu -> plan -> a layer.  ./ramp-dev demo runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
ramp=build/ramp
trace=data/traces/dsv2lite_esft.rtrace
shipped=data/h200/dsv2-lite-ep8.rmeas
out=build/demo
mkdir -p "$out"

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }

step "1. What arrives: DeepSeek-V2-Lite's recorded routing (MIT), spread over 8 GPUs"
$ramp loads "$trace" --layout ep8

if $ramp doctor --require gpu >/dev/null 2>&1; then
  step "2. Measured here and now, on this machine's GPU"
  $ramp profile --model dsv2-lite --layout ep8 --trace "$trace" --minutes 1 -o "$out/measured.rmeas"
  measured=$out/measured.rmeas
else
  step "2. No GPU here: measurements that the repository ships, taken on an NVIDIA H200 (data/README.md)"
  measured=$shipped
fi

step "3. The cost model (Eq. 3), fitted on training passes and tried on passes of other requests"
$ramp fit "$measured" --show 6

step "4. Ways of choosing, on held-out passes: their gap to exhaustive search"
$ramp eval "$measured"

step "5. The plan: menus of up to four configurations, one kernel each, and what the choice does with one load"
$ramp plan make "$measured" -o "$out/plan.json"
$ramp plan explain "$out/plan.json" --load 30,30,30,30,1,1,1,1

step "6. One layer, run here on the host with the plan's choice, against the reference in double precision"
$ramp layer "$out/plan.json" --trace "$trace" --tokens 32

step "Where the numbers come from"
if [ "$measured" = "$shipped" ]; then
  echo "Times in us (steps 3 to 5): measured on an NVIDIA H200; the provenance line of step 4 says when and with what."
else
  echo "Times in us (steps 3 to 5): measured on this machine's GPU just now."
fi
echo "Loads, choices, fits and step 6: computed here."
