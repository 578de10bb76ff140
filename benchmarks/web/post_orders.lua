-- Requests for wrk: an order each, of 10,000 customers in turn.
local requests = {}
local sent = 0

function init(arguments)
  for customer = 1, 10000 do
    local path = string.format("/orders/customer-%05d", customer)
    local headers = { ["Content-Type"] = "application/json" }
    local order = string.format('{"article": %d, "quantity": 1, "currency": "EUR"}', customer)
    requests[customer] = wrk.format("POST", path, headers, order)
  end
end

function request()
  sent = sent + 1
  return requests[sent % #requests + 1]
end
