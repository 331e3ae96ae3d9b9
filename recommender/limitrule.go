package recommender

// LimitRule replaces the rule by which a CPU limit follows its request (cpu.limits). The zero value keeps the ratio of
// the original resources. A container without a limit gets none by any rule, and the containers of a Guaranteed pod
// keep their limits equal to their requests.
type LimitRule struct {
	// Remove: new containers have no limit. Kubernetes cannot remove a limit from a running container: there it is not
	// lowered any more.
	Remove bool `json:",omitzero"`
	// Thousandths of the request that the limit has, 1000 or more; 0: the original ratio.
	Thousandths Amount `json:",omitzero"`
	// Min and Max bound the limit, in millicores; 0: no bound.
	Min, Max Amount `json:",omitzero"`
}

// Sets reports whether the rule computes a limit.
func (l LimitRule) Sets() bool { return !l.Remove && l != (LimitRule{}) }

// Limit is the CPU limit for a request, in millicores: the ratio of the rule, or else of the original resources, within
// Min and Max. Usage takes precedence over both: the present limit (has) is not lowered below floor. The limit is never
// below the request, and above it unless the original limit equals its request: the pod's QoS class may depend on that. 0
// if there is no limit now.
func (l LimitRule) Limit(original Allocation, has, request, floor Amount) Amount {
	if has == 0 {
		return 0
	}
	limit := LimitFor(CPU, original, request, 0)
	if l.Thousandths > 0 {
		limit = request.times(l.Thousandths, 1000)
	}
	limit = max(limit, l.Min)
	if l.Max > 0 {
		limit = min(limit, l.Max)
	}
	return max(limit, leastLimit(original, request), min(floor, has))
}

// MostRequest is the highest request, in millicores, whose limit does not exceed Max; 0: no bound. It bounds a
// request that is no need, such as that of a startup boost: the limit rises with any other request.
func (l LimitRule) MostRequest(original Allocation) Amount {
	if !l.Sets() || l.Max == 0 || original.Limit == 0 {
		return 0
	}
	return max(1, l.Max-leastLimit(original, 0))
}

// leastLimit is the smallest CPU limit for a request that keeps the QoS class of the pod.
func leastLimit(original Allocation, request Amount) Amount {
	if original.defaulted().pinned() {
		return request
	}
	return request + 1
}

// ruled is the CPU limit of a running container by the rule of the settings.
func (s *step) ruled() Amount {
	rule := s.settings.Limits
	if rule.Remove {
		limit := max(s.live.Limit, Brake(LimitFor(CPU, s.original, s.next.Request, 0), s.largest), leastLimit(s.original, s.next.Request))
		s.why = s.why.text("; cpu.limits Remove: the limit ").amount(CPU, s.live.Limit).text(" is not lowered, and only new pods have none")
		return limit
	}
	limit := rule.Limit(s.original, s.live.Limit, s.next.Request, s.keptLimit)
	if s.target > s.next.Request {
		// keptLimit is zero if the limit of the target covers the usage; that of a smaller request may not.
		limit = max(limit, min(s.live.Limit, rule.Limit(s.original, s.live.Limit, s.target, s.keptLimit)))
	}
	if s.due && s.next.Request > s.live.Request {
		limit = max(limit, s.live.Limit) // a raise that also lowers does not go at once; the limit follows later
	}
	limit = CPU.CapLimit(s.original, Allocation{Request: s.next.Request, Limit: limit}, s.largest).Limit
	if s.next.Request == s.live.Request {
		return s.caughtUp(limit)
	}
	s.why = s.why.limitRule(rule, limit)
	return limit
}

// whyLimit adds the rule of the CPU limit to the reason of the last step.
func whyLimit(c *chain, s sentence, request Amount) sentence {
	rule := c.settings.Limits
	switch {
	case rule == (LimitRule{}) || c.original.Limit == 0:
		return s
	case rule.Remove:
		return s.text("; cpu.limits Remove: new pods have no CPU limit")
	}
	limit := c.limit(request)
	s = s.limitRule(rule, limit)
	if plain := rule.Limit(c.original, c.original.Limit, request, 0); limit > plain && limit > LeastCPULimit {
		s = s.text(", not ").amount(CPU, plain).text(": usage reached ").usage(CPU, c.history.Peak)
	}
	return s
}

// limitRule writes a limit and the rule that gives it.
func (s sentence) limitRule(rule LimitRule, limit Amount) sentence {
	s = s.text("; the limit is ").amount(CPU, limit).text(" by cpu.limits (")
	between := ""
	if rule.Thousandths > 0 {
		s, between = s.text("ratio ").number(float64(rule.Thousandths)/1000, 3), ", "
	}
	if rule.Min > 0 {
		s, between = s.text(between).text("min ").amount(CPU, rule.Min), ", "
	}
	if rule.Max > 0 {
		s = s.text(between).text("max ").amount(CPU, rule.Max)
	}
	return s.text(")")
}
