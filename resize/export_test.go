package resize

// What the tests of this package see of it beside what others see.
const (
	MostAlike    = mostAlike
	RefusedQuota = refusedQuota
)

// Gate is one of the gates.
type Gate = gate

var (
	FirstClosed = firstClosed
	MinorOf     = minor
	QuotaGate   = quota
	Steps       = steps
	TriedLately = triedLately
)
