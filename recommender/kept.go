package recommender

import (
	"math"

	"attune.io/attune/recommender/replicas"
)

// Kept is the range of requests with which HorizontalPodAutoscalers keep the number of replicas. nil: no range applies.
type Kept struct {
	// Least and Most are the smallest and the largest request, in millicores or bytes. Most is 0 if there is none.
	Least, Most Amount
	// By names the autoscalers. Below and Above say what they would have done with a request outside; they may be empty.
	By, Below, Above string
	// Retarget is how the target of the autoscaler changes with the request; nil: it does not.
	Retarget *Retarget
	// Reason of the hold if the range and the other bounds of the request contradict each other.
	Reason Reason
}

// Retarget is the threshold of an autoscaler whose target changes with the request of a container.
type Retarget struct {
	// Threshold is the original target of the original request of a pod.
	Threshold replicas.Threshold
	// Others is what the other containers of the pod request; 0: the autoscaler does not count them.
	Others float64
}

// Contains reports whether a request is within the range; nil contains each request.
func (k *Kept) Contains(request Amount) bool {
	return k == nil || request >= k.Least && (k.Most == 0 || request <= k.Most)
}

// nearest returns the whole amount of the range that is nearest to a request outside of it.
func (k *Kept) nearest(r Resource, request Amount) Amount {
	if request < k.Least {
		return r.WholeWithin(k.Least, k.Least, k.Most)
	}
	return r.WholeWithin(k.Most, k.Least, k.Most)
}

// kept brings the request into the range. It leaves a request for which the other bounds allow no amount of the range;
// outsideKept then holds the resource.
func kept(c *chain, before Amount) Amount {
	if c.kept.Contains(before) {
		return before
	}
	if nearest := c.kept.nearest(c.resource, before); c.permits(nearest) {
		return nearest
	}
	return before
}

// permits reports whether a request is within the bounds and not below a minimum.
func (c *chain) permits(request Amount) bool {
	return c.clamped(request) == request && request >= c.least()
}

// outsideKept returns the hold of a resource whose target is not within the range, or nil.
func (c *chain) outsideKept(request Amount) *Hold {
	if request == 0 || c.kept.Contains(request) {
		return nil
	}
	why := sentence(c.kept.By).text(" keeps the number of replicas only ").keptRange(c)
	nearest := c.kept.nearest(c.resource, request)
	switch {
	case nearest > request:
		why = why.outside(c.kept.Below).text(". The highest request that maxAllowed and the limit allow is ").amount(c.resource, c.clamped(nearest))
	case nearest < c.least():
		why = why.outside(c.kept.Above).text(". The request is not below ").floorSource(c)
	default:
		why = why.outside(c.kept.Above).text(". minAllowed is ").amount(c.resource, c.clamped(nearest))
	}
	return c.hold(c.kept.Reason, why)
}

func whyKept(c *chain, s sentence, before, after Amount) sentence {
	switch {
	case after > before:
		return s.text("raised to ").amount(c.resource, after).outside(c.kept.Below).retarget(c, ". ", after)
	case after < before:
		return s.text("lowered to ").amount(c.resource, after).outside(c.kept.Above).retarget(c, ". ", after)
	case c.kept.Contains(before) && c.kept.Retarget != nil:
		return s.retarget(c, "", after)
	case c.kept.Contains(before):
		return s.text(c.kept.By).text(" keeps the number of replicas ").keptRange(c)
	}
	return s.text("not within the range in which ").text(c.kept.By).text(" keeps the number of replicas")
}

// keptRange writes the range.
func (s sentence) keptRange(c *chain) sentence {
	if c.kept.Most == 0 {
		return s.text("with a request of at least ").amount(c.resource, c.kept.Least)
	}
	return s.text("with a request from ").amount(c.resource, c.kept.Least).text(" to ").amount(c.resource, c.kept.Most)
}

// outside writes what would have happened outside of the range.
func (s sentence) outside(what string) sentence {
	if what == "" {
		return s
	}
	return s.text(": ").text(what)
}

// retarget writes which target of the autoscaler belongs to a request.
func (s sentence) retarget(c *chain, between string, request Amount) sentence {
	if c.kept.Retarget == nil {
		return s
	}
	of := c.kept.Retarget.Threshold
	target := of.At(float64(request) + c.kept.Retarget.Others)
	s = s.text(between).text(c.kept.By).text(": target ").count(int(of.Target)).text(" %")
	if target == of.Target {
		s = s.text(" does not change: it scales at ")
	} else {
		s = s.text(" -> ").count(int(target)).text(" %, so that it still scales at ")
	}
	return s.amount(c.resource, Amount(math.Round(of.Usage()))).text(" per pod")
}
