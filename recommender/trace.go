package recommender

// trace collects the steps of a recommendation. All reasons are written into one buffer, which becomes one string
// that the steps share: ends[i] is where the reason of steps[i] ends. A nil trace collects nothing.
type trace struct {
	steps []Step
	ends  []int
	text  sentence
}

// newTrace reserves space for all steps of both resources, so that a recommendation allocates a fixed number of
// times.
func newTrace() *trace {
	const most = len(Resources) * int(ruleCount)
	return &trace{
		steps: make([]Step, 0, most),
		ends:  make([]int, 0, most),
		text:  make(sentence, 0, 1024),
	}
}

func (t *trace) add(c *chain, r rule, before, after Amount) {
	if t == nil {
		return
	}
	t.text = r.why(c, t.text, before, after)
	t.ends = append(t.ends, len(t.text))
	t.steps = append(t.steps, Step{Resource: c.resource, Name: ruleNames[r], Before: before, After: after})
}

// finish is the collected steps, each with its reason.
func (t *trace) finish() []Step {
	all, start := string(t.text), 0
	for i, end := range t.ends {
		t.steps[i].Reason = all[start:end]
		start = end
	}
	return t.steps
}
