#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures on this machine's GPU what data/h200 holds, in half an hour or so, one file a step:
#
#   tools/measure.sh OUT [STEP ...]      default: all, which are check soak layer ordered polymorphic select campaigns large layouts tensor sanitizers
#   tools/measure.sh --print [STEP ...]  the commands alone
#
# Where there are several GPUs, run one of these on each, with other steps: CUDA_VISIBLE_DEVICES=1 tools/measure.sh OUT large layouts
# SHARE=0.5 gives campaigns half of their minutes.  A step that fails or runs into its limit is said and the next one goes on.  RAMP names the program, build/ramp by default.
set -uo pipefail
cd "$(dirname "$0")/.."
ramp=${RAMP:-build/ramp}
out=${1:-}
[ -n "$out" ] || { sed -n '3,9s/^# \{0,1\}//p' "$0"; exit 2; }
shift
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(check soak layer ordered polymorphic select campaigns large layouts tensor sanitizers)
print=
if [ "$out" = --print ]; then
  print=yes out=OUT
else
  mkdir -p "$out"
fi
failed=0

share=${SHARE:-1}
if ! [[ $share =~ ^[0-9]*\.?[0-9]+$ ]] || [[ $share =~ ^[0.]*$ ]]; then
  printf 'measure.sh: SHARE is %s; allowed: a number above 0, as 0.5\n' "$share" >&2
  exit 2
fi
# minutes N: of a campaign, by SHARE
minutes() { awk "BEGIN { print $1 * $share }"; }

# run SECONDS COMMAND...
run() {
  local limit=$1 start=$SECONDS rc=0
  shift
  if [ -n "$print" ]; then
    printf '%s\n' "$*"
    return
  fi
  printf '\n== %s\n' "$*"
  timeout "$limit" "$@" || rc=$?
  [ $rc = 0 ] || failed=1
  printf '== exit %d after %d s\n' $rc $((SECONDS - start))
}

# few_passes SECONDS MODEL:LAYOUT:TRAIN:TEST:MINUTES: two samples a cell
few_passes() {
  local model layout train test minutes
  IFS=: read -r model layout train test minutes <<<"$2"
  run "$1" "$ramp" tune --model "$model" --layout "$layout" --generate seed=1 --rounds 2 --margin 0.03 --train "$train" \
    --test "$test" --minutes "$(minutes "$minutes")" --measurements "$out/$model-$layout.rmeas" -o "$out/$model-$layout.plan.json"
}

# Entries among which `--policy best` takes the fastest: of each class what wins somewhere.
entries=f1-r8-c256-s6-w2-dynamic,f1-r8-c256-s6-w1-dynamic-x2,f1-r8-c256-s5-w2-dynamic-x2,f1-r8-c256-s5-w2-dynamic-x4,f1-r16-c256-s5-w2-dynamic
entries+=,f1-r16-c256-s5-w1-dynamic-x2,f1-r24-c256-s4-w1-dynamic-x2,f1-r24-c256-s5-w1-dynamic,f1-r32-c256-s4-w2-dynamic-grouped
entries+=,f1-r32-c256-s3-w2-dynamic-x2,f1-r48-c256-s4-w1-dynamic-grouped,f1-r64-c256-s3-w1-dynamic-grouped
entries+=,f1-r16-c512-s5-w2-dynamic,f1-r32-c512-s5-w1-dynamic
phased=f3-r64-c256-s4-w1-dynamic,f3-r64-c256-s4-w1-static,f3-r128-c256-s3-w1-dynamic,f3-r128-c256-s3-w1-static
phased+=,f3-r64-c256-s4-w1-dynamic-x2-grouped,f3-r128-c256-s3-w1-dynamic-x2-grouped
entries+=,$phased
tokens=1,8,16,32,64,128,256,512,1024,2048,4096
six=f1-r8-c256-s6-w2-dynamic,f1-r16-c256-s5-w2-dynamic,f1-r24-c256-s5-w1-dynamic,f1-r32-c256-s4-w2-dynamic
six+=,f1-r40-c256-s4-w1-dynamic,f1-r48-c256-s4-w1-dynamic
layers="olmoe:ep8 olmoe:ep1 qwen3-30b:ep8 deepseek-v3:ep8 dsv2-lite:ep8 qwen2-57b:ep8 qwen35-35b:ep8 phi35:ep8 mixtral:ep8"

for step in "${steps[@]}"; do
  case $step in
    check) run 180 "$ramp" check -o "$out/check.json" ;;
    soak) run 120 "$ramp" check --soak -o "$out/soak.json" ;;
    layer)
      for c in $layers; do
        run 90 "$ramp" bench layer "${c%:*}" --layout "${c#*:}" --menu "$entries" --policy best --tokens $tokens --replays 9 --json "$out/layer.json"
      done
      ;;
    ordered)
      for m in olmoe qwen3-30b deepseek-v3; do
        run 60 "$ramp" bench layer $m --layout ep8 --mode ordered --menu "$phased" --policy best --tokens $tokens --replays 9 \
          --json "$out/layer.json"
      done
      ;;
    polymorphic)
      for m in olmoe qwen3-30b deepseek-v3; do
        run 30 "$ramp" bench layer $m --layout ep8 --forced all --menu "$six" --tokens 16,64,128,256,512 --replays 9 \
          --json "$out/forced-$m.json"
      done
      ;;
    select) run 30 "$ramp" bench select olmoe --layout ep8 --json "$out/select.json" ;;
    campaigns)
      run 90 "$ramp" tune --model dsv2-lite --layout ep8 --trace data/traces/dsv2lite_esft.rtrace --minutes "$(minutes 0.7)" \
        --measurements "$out/dsv2-lite-ep8.rmeas" -o "$out/dsv2-lite-ep8.plan.json"
      for m in olmoe qwen3-30b qwen35-35b; do
        run 90 "$ramp" tune --model $m --layout ep8 --generate seed=1 --minutes "$(minutes 0.75)" --measurements "$out/$m-ep8.rmeas" \
          -o "$out/$m-ep8.plan.json"
      done
      ;;
    large)  # layers whose loads take longer: fewer passes, two samples a cell
      for x in deepseek-v3:ep8:40:30:1.5 deepseek-v3:ep32:16:12:0.9 {phi35,mixtral,qwen2-57b}:ep8:60:40:0.9; do
        few_passes 150 $x
      done
      ;;
    layouts)  # the paper's others; the more GPUs, the more loads has a pass
      for x in {qwen3-30b,olmoe,phi35,qwen2-57b,qwen35-35b}:ep16:24:16 {qwen3-30b,qwen35-35b,olmoe}:ep32:16:12 \
        {mixtral,olmoe,phi35,qwen35-35b}:ep4:40:24; do
        few_passes 90 $x:0.6
      done
      ;;
    tensor)
      for x in {qwen3-30b,qwen35-35b}:tp{1,2}:40:24 deepseek-v3:tp8:40:24; do few_passes 60 $x:0.3; done
      ;;
    sanitizers)
      for tool in memcheck initcheck racecheck; do
        run 60 compute-sanitizer --tool $tool "$ramp" check --small \
          --configs f1-r8-c256-s6-w2-dynamic,f1-r8-c256-s5-w2-dynamic-x2,f3-r128-c256-s3-w1-dynamic,f3-r64-c256-s4-w1-dynamic-x2-grouped
      done
      ;;
    *)
      printf 'measure.sh: no step %s; its first lines list them\n' "$step" >&2
      exit 2
      ;;
  esac
done
exit $failed
