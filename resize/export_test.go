package resize

// Unexported names that the tests of this package need.
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
