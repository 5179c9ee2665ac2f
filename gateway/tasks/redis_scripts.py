r"""The decisions that are made within the Redis, each in one step, and the layout of the data.

    tasks       hash     `SCOPE ID` → tenant, principal, context, state, replica, dialect, made, seen (MessagePack)
    contexts    hash     `SCOPE ID` → tenant, principal, seen
    rows        ordered  `t` or `c`, then `SCOPE ID`: all of them in their order
    tenants     set      those that have a task or a context
    open:T      ordered  `SCOPE ID` of a tenant's tasks that are not over, by when they were seen last
    ended:T     ordered  those that are
    held:T      ordered  its contexts
    counts:T    hash     `SCOPE PRINCIPAL context` → how many of its tasks; an empty word stands for any
    notes       hash     `KIND key` → twelve digits of when it is to be forgotten, then the value
    meta        hash     `KIND key` → tenant, group, when it is due (microseconds), when it is to be forgotten
    index       ordered  `k KIND key`, `n TENANT KIND key`, `g KIND GROUP key`, `d KIND due key`, `u until KIND key`

A word in capitals ends with a zero byte, and its own zero bytes are escaped as two bytes: so lists of words are
unambiguous, and sort as bytes like the words. No key has a time to live: a server that evicts keys to make room takes
those first, and the counts would no longer be right. What is old is forgotten by `EXPIRE`.

Every key that a script uses is passed to it. A name that holds another tenant's task is never written to.
"""

from typing import Final

from gateway.tasks.store import OPEN, SEEN_AGAIN

SHARED: Final = ("tasks", "contexts", "rows", "tenants")
"""The first keys of the scripts on tasks; `OF_TENANT` of each tenant follow."""
OF_TENANT: Final = ("open", "ended", "held", "counts")
NOTES: Final = ("notes", "meta", "index")
"""The keys of the scripts on notes."""

_OPEN: Final = ", ".join(f"['{state}'] = true" for state in sorted(OPEN))

_WORDS: Final = r"""
local function closed(word)
  return (string.gsub(word, '[%z\1]', {['\0'] = '\1\1', ['\1'] = '\1\2'})) .. '\0'
end
local function split(words)
  local border = string.find(words, '\0', 1, true)
  return string.sub(words, 1, border), string.sub(words, border + 1)
end
"""

# Where `at` stands, the keys of the tenant begin.
_TASKS: Final = (
    _WORDS
    + rf"""
local OPEN = {{{_OPEN}}}
local function count(at, scope, principal, context, by)
  for _, who in ipairs(principal == '' and {{''}} or {{'', principal}}) do
    for _, which in ipairs(context == '' and {{''}} or {{'', context}}) do
      local field = scope .. closed(who) .. which
      if redis.call('HINCRBY', KEYS[at + 3], field, by) <= 0 then redis.call('HDEL', KEYS[at + 3], field) end
    end
  end
end
local function count_context(at, scope, principal, context)
  count(at, scope, principal, context, 1)
  count(at, scope, principal, '', -1)
end
local function put_task(at, scope, id, task)
  local name = scope .. id
  redis.call('HSET', KEYS[1], name, cmsgpack.pack(task))
  redis.call('ZADD', KEYS[OPEN[task[4]] and at or at + 1], task[8], name)
end
local function put_context(at, name, context)
  redis.call('HSET', KEYS[2], name, cmsgpack.pack(context))
  redis.call('ZADD', KEYS[at + 2], context[3], name)
end
local function new_task(at, scope, id, task)
  put_task(at, scope, id, task)
  count(at, scope, task[2], task[3], 1)
  redis.call('ZADD', KEYS[3], 0, 't' .. scope .. id)
  redis.call('SADD', KEYS[4], task[1])
end
local function new_context(at, name, context)
  put_context(at, name, context)
  redis.call('ZADD', KEYS[3], 0, 'c' .. name)
  redis.call('SADD', KEYS[4], context[1])
end
"""
)

RECORD: Final = (
    _TASKS
    + rf"""
local scope, id, context, tenant, principal, state, replica, dialect, now, apart, prefixed =
  unpack(cmsgpack.unpack(ARGV[1]))
local function other(known, principals)
  return known and (known[1] ~= tenant or (principals and known[2] ~= principal))
end
local context_of = context ~= '' and redis.call('HGET', KEYS[2], scope .. context)
local task_of = id ~= '' and redis.call('HGET', KEYS[1], scope .. id)
context_of = context_of and cmsgpack.unpack(context_of)
task_of = task_of and cmsgpack.unpack(task_of)
local function told()
  return cmsgpack.pack({{task_of and {{task_of[1], task_of[2]}}, context_of and {{context_of[1], context_of[2]}}}})
end
if other(task_of, apart) or (not prefixed and other(context_of, apart)) then return told() end
local all_mine = not other(task_of, true) and not other(context_of, true)
if context_of then
  -- Under the asker's prefix, another tenant's is left alone.
  if context_of[1] == tenant and now >= context_of[3] + {SEEN_AGAIN} then
    context_of[3] = now
    put_context(5, scope .. context, context_of)
  end
elseif context ~= '' then
  context_of = {{tenant, principal, now}}
  new_context(5, scope .. context, context_of)
end
if task_of then
  local is_new = now >= task_of[8] + {SEEN_AGAIN}
  if context ~= '' and task_of[3] == '' then
    count_context(5, scope, task_of[2], context)
    task_of[3] = context
    is_new = true
  end
  if state ~= '' and state ~= task_of[4] and (OPEN[task_of[4]] or not OPEN[state]) then
    redis.call('ZREM', KEYS[OPEN[task_of[4]] and 5 or 6], scope .. id)
    task_of[4] = state
    is_new = true
  end
  if is_new then
    task_of[8] = math.max(now, task_of[8])
    put_task(5, scope, id, task_of)
  end
elseif id ~= '' then
  task_of = {{tenant, principal, context, state, replica, dialect, now, now}}
  new_task(5, scope, id, task_of)
end
return all_mine and 1 or told()
"""
)
"""ARGV: scope, task, context, tenant, principal, state, replica, dialect, now, apart, prefixed (packed).

Returns 1 where all that was named is the asker's; else the owner of each, or false. Where one is another's, nothing is
written.
"""

PUT_ROWS: Final = (
    _TASKS
    + r"""
local written = 0
for _, row in ipairs(cmsgpack.unpack(ARGV[1])) do
  local scope, id, is_task, known = unpack(row)
  if redis.call('HEXISTS', KEYS[is_task and 1 or 2], scope .. id) == 0 then
    if is_task then new_task(5, scope, id, known) else new_context(5, scope .. id, known) end
    written = written + 1
  end
end
return written
"""
)
"""ARGV: rows of one tenant, each a scope, an id, whether it is a task, and what the hash has of it (packed).

Returns how many were written.
"""

_FORGET: Final = (
    _TASKS
    + r"""
local function forget_task(at, name)
  local known = redis.call('HGET', KEYS[1], name)
  redis.call('ZREM', KEYS[at], name)
  redis.call('ZREM', KEYS[at + 1], name)
  redis.call('ZREM', KEYS[3], 't' .. name)
  if not known then return end
  known = cmsgpack.unpack(known)
  redis.call('HDEL', KEYS[1], name)
  -- A server that is full counts no more, unless a script has made some room before.
  count(at, (split(name)), known[2], known[3], -1)
end
local function forget_context(at, name)
  redis.call('HDEL', KEYS[2], name)
  redis.call('ZREM', KEYS[3], 'c' .. name)
  redis.call('ZREM', KEYS[at + 2], name)
end
local function forget_first(at, key, most, forget)
  if most <= 0 then return 0 end
  local names = redis.call('ZRANGE', KEYS[key], 0, most - 1)
  for _, name in ipairs(names) do forget(at, name) end
  return #names
end
local function leave(at, tenant)
  if redis.call('EXISTS', KEYS[at], KEYS[at + 1], KEYS[at + 2]) > 0 then return end
  redis.call('SREM', KEYS[4], tenant)
  redis.call('DEL', KEYS[at + 3])
end
"""
)

EXPIRE: Final = (
    _FORGET
    + r"""
local tenants, ended_before, open_before, tasks, contexts, left = unpack(cmsgpack.unpack(ARGV[1]))
local most = left
local function forget_older(at, key, before, forget)
  if left <= 0 then return end
  local names = redis.call('ZRANGEBYSCORE', KEYS[key], '-inf', '(' .. before, 'LIMIT', 0, left)
  for _, name in ipairs(names) do forget(at, name) end
  left = left - #names
end
local function held(key) return redis.call('ZCARD', KEYS[key]) end
for number, tenant in ipairs(tenants) do
  local at = 4 * number + 1
  forget_older(at, at + 1, ended_before, forget_task)
  forget_older(at, at, open_before, forget_task)
  forget_older(at, at + 2, open_before, forget_context)
  for _, key in ipairs({at + 1, at}) do
    left = left - forget_first(at, key, math.min(held(at) + held(at + 1) - tasks, left), forget_task)
  end
  left = left - forget_first(at, at + 2, math.min(held(at + 2) - contexts, left), forget_context)
  leave(at, tenant)
end
return most - left
"""
)
"""ARGV: tenants, the times before which tasks that are over and all else are old, most tasks, most contexts, most that
are forgotten now (packed). Returns how many were.
"""

ERASE: Final = (
    _FORGET
    + r"""
local tenant, most = unpack(cmsgpack.unpack(ARGV[1]))
local left = most
left = left - forget_first(5, 5, left, forget_task)
left = left - forget_first(5, 6, left, forget_task)
left = left - forget_first(5, 7, left, forget_context)
leave(5, tenant)
return most - left
"""
)
"""ARGV: tenant, most that is forgotten now (packed). Returns how many were."""

_NOTES: Final = (
    _WORDS
    + r"""
local function seconds(at) return string.format('%012.0f', at) end
local function due_at(at) return string.format('%017.0f', at) end
local function is_past(at, now) return at > 0 and at <= now end
local function places(name, meta)
  local kind, key = split(name)
  local tenant, group, due, till = unpack(meta)
  local found = {'k' .. name, 'n' .. closed(tenant) .. name}
  if group ~= '' then found[#found + 1] = 'g' .. kind .. closed(group) .. key end
  if due > 0 then found[#found + 1] = 'd' .. kind .. due_at(due) .. key end
  if till > 0 then found[#found + 1] = 'u' .. seconds(till) .. name end
  return found
end
local function put_note(name, meta, value)
  for _, place in ipairs(places(name, meta)) do redis.call('ZADD', KEYS[3], 0, place) end
  redis.call('HSET', KEYS[2], name, cmsgpack.pack(meta))
  redis.call('HSET', KEYS[1], name, seconds(meta[4]) .. value)
end
local function drop_note(name)
  local meta = redis.call('HGET', KEYS[2], name)
  if not meta then return 0 end
  redis.call('ZREM', KEYS[3], unpack(places(name, cmsgpack.unpack(meta))))
  redis.call('HDEL', KEYS[2], name)
  redis.call('HDEL', KEYS[1], name)
  return 1
end
local function find_note(name, now)
  local value = redis.call('HGET', KEYS[1], name)
  if not value or is_past(tonumber(string.sub(value, 1, 12)), now) then return nil end
  return string.sub(value, 13)
end
local function within(prefix, after, most)
  local from = after == '' and '[' .. prefix or '(' .. after
  return redis.call('ZRANGEBYLEX', KEYS[3], from, '(' .. prefix .. '\255', 'LIMIT', 0, most)
end
-- What is listed, page by page: `take` gives what is to be told of a place, or nil where it is past its time.
local full = false -- set by `take` when the reply is long enough
local function listed(prefix, after, most, take)
  local found, size = {}, 0
  repeat
    local page = within(prefix, after, most - size)
    for _, place in ipairs(page) do
      if full then break end
      local told = take(string.sub(place, #prefix + 1))
      if told then
        size = size + 1
        for _, each in ipairs(told) do found[#found + 1] = each end
      end
      after = place
    end
  until full or #page == 0 or size >= most
  return found
end
"""
)

KEEP: Final = (
    _NOTES
    + r"""
local name, meta, now, once = unpack(cmsgpack.unpack(ARGV[1]))
local known = once and find_note(name, now)
if known then return known end
drop_note(name)
if not is_past(meta[4], now) then put_note(name, meta, ARGV[2]) end
return false
"""
)
"""ARGV: name, its meta, now, whether one that is there stands (packed); the value. Returns the one that stood."""

DROP: Final = (
    _NOTES
    + r"""
local name, now = unpack(cmsgpack.unpack(ARGV[1]))
local known = find_note(name, now)
drop_note(name)
return known and 1 or 0
"""
)
"""ARGV: name, now (packed). Returns whether there was one."""

GROUP: Final = (
    _NOTES
    + r"""
local kind, group, most, now = unpack(cmsgpack.unpack(ARGV[1]))
return listed('g' .. kind .. group, '', most, function(key)
  local value = find_note(kind .. key, now)
  return value and {key, value}
end)
"""
)
"""ARGV: kind, group, most, now (packed). Returns keys and values."""

DUE: Final = (
    _NOTES
    + r"""
local kind, due, most, again, now = unpack(cmsgpack.unpack(ARGV[1]))
local prefix, found = 'd' .. kind, {}
for _, place in ipairs(redis.call(
  'ZRANGEBYLEX', KEYS[3], '[' .. prefix, '(' .. prefix .. due_at(due) .. '\255', 'LIMIT', 0, most
)) do
  local key = string.sub(place, #prefix + 18)
  local name = kind .. key
  local value = find_note(name, now)
  if value then
    local meta = cmsgpack.unpack(redis.call('HGET', KEYS[2], name))
    meta[3] = again
    redis.call('ZREM', KEYS[3], place)
    put_note(name, meta, value)
    found[#found + 1] = key
    found[#found + 1] = value
  else
    drop_note(name)
  end
end
return found
"""
)
"""ARGV: kind, due by then, most, when they are due again, now (packed). Returns keys and values."""

LIST: Final = (
    _NOTES
    + r"""
local after, most, now, room = unpack(cmsgpack.unpack(ARGV[1]))
return listed('k', after, most, function(name)
  local value = find_note(name, now)
  room = room - (value and #value or 0)
  full = room <= 0
  return value and {name, value, redis.call('HGET', KEYS[2], name)}
end)
"""
)
"""ARGV: the place behind which to begin, most, now, bytes that are enough (packed). Returns names, values, metas."""

EXPIRE_NOTES: Final = (
    _NOTES
    + r"""
local now, most = unpack(cmsgpack.unpack(ARGV[1]))
local past = redis.call('ZRANGEBYLEX', KEYS[3], '[u', '(u' .. seconds(now) .. '\255', 'LIMIT', 0, most)
for _, place in ipairs(past) do drop_note(string.sub(place, 14)) end
return #past
"""
)
"""ARGV: now, most (packed). Returns how many were forgotten."""

ERASE_NOTES: Final = (
    _NOTES
    + r"""
local tenant, most = unpack(cmsgpack.unpack(ARGV[1]))
local prefix = 'n' .. tenant
local found = within(prefix, '', most)
for _, place in ipairs(found) do drop_note(string.sub(place, #prefix + 1)) end
return #found
"""
)
"""ARGV: tenant, most (packed). Returns how many were forgotten."""
