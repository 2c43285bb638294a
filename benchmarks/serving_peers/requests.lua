-- A wrk script that sends the requests of a file (head and body, each behind its length) one after the other, round and round.
-- REQUESTS names the file. The last line of the output is one JSON object.
local requests, at = {}, 0

function init()
  local file = assert(io.open(os.getenv("REQUESTS"), "rb"))
  local text = file:read("*a")
  file:close()
  local position = 1
  local function part()
    local a, b, c, d = string.byte(text, position, position + 3)
    local size = a + 256 * (b + 256 * (c + 256 * d))
    position = position + 4 + size
    return string.sub(text, position - size, position - 1)
  end
  while position <= #text do
    local head = part()
    requests[#requests + 1] = head .. part()
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.4f, "p50_ms": %.3f, "p90_ms": %.3f, "p99_ms": %.3f, "max_ms": %.3f, "errors": %d, "non2xx": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
    latency:percentile(99) / 1e3, latency.max / 1e3, e.connect + e.read + e.write + e.timeout, e.status))
end
