#!/usr/bin/env bash
# curl: what a shell script sees.
set -euo pipefail
ask() { curl -sS --max-time 120 -H "Authorization: Bearer $QUIRE_KEY" "$@"; }

[ "$(curl -sS -o /dev/null -w '%{http_code}' "$QUIRE_URL/health")" = 200 ]
[ "$(curl -sS -o /dev/null -w '%{http_code}' "$QUIRE_URL/v1/models")" = 401 ]
ask "$QUIRE_URL/v1/models" | grep -q '"smollm2"'

chat='{"messages":[{"role":"user","content":"Say hello."}],"temperature":0,"max_tokens":8}'
ask "$QUIRE_URL/v1/chat/completions" -d "$chat" | grep -q '"finish_reason":"'
stream=$(ask -N "$QUIRE_URL/v1/chat/completions" -d "${chat%\}},\"stream\":true}")
grep -q '^data: {' <<<"$stream"
[ "$(grep -v '^$' <<<"$stream" | tail -1)" = 'data: [DONE]' ]
ask "$QUIRE_URL/v1/completions" -d '{"prompt":"Once upon a time","max_tokens":4}' | grep -q text_completion
[ "$(ask -o /dev/null -w '%{http_code}' "$QUIRE_URL/v1/completions" -d '{"prompt":')" = 400 ]
ask "$QUIRE_URL/tokenize" -d '{"content":"Hello"}' | grep -q '"tokens":\['
ask "$QUIRE_URL/metrics" | grep -q '^vllm:prompt_tokens_total'
ask "$QUIRE_URL/debug/pages" | grep -q '"held_by_sequences":'
# A body that curl announces before sending it (Expect: 100-continue).
head -c 2000000 /dev/zero | tr '\0' 'a' >"${TMPDIR:-/tmp}/quire-curl.$$"
trap 'rm -f "${TMPDIR:-/tmp}/quire-curl.$$"' EXIT
[ "$(ask -o /dev/null -w '%{http_code}' "$QUIRE_URL/v1/completions" --data-binary @"${TMPDIR:-/tmp}/quire-curl.$$")" = 400 ]
