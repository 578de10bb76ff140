-- Orders from wrk; each answer becomes a line of the file that the argument names.
local sent = 0
local answers

function init(arguments)
  answers = io.open(arguments[1], "w")
  answers:setvbuf("full")
end

function request()
  sent = sent + 1
  return wrk.format("POST", string.format("/orders/customer-%d", sent % 1000), nil, tostring(sent))
end

function response(status, headers, body)
  answers:write(string.format('{"status": %d, "body": %s}\n', status, body))
end

function done(summary, latency, requests)
  print(string.format("longest answer: %d us", latency.max))
end
