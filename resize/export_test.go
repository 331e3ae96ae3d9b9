package resize

import (
	"reflect"
	"runtime"
	"strings"
)

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

// GatesOf returns the names of the gates, the narrowings and the last gates of a kind of resize, in order.
func GatesOf(kind string) (first, narrow, last []string) {
	of := rules{gates, narrowings, lastGates}
	switch known, errand := errands[kind]; {
	case errand:
		of = known
	case kind == "standing":
		of = rules{first: standingGates}
	case kind == "fits":
		of = rules{first: shared[:1], last: shared[1:]}
	}
	return namesOf(of.first), namesOf(of.narrow), namesOf(of.last)
}

func namesOf[F any](functions []F) []string {
	names := []string{}
	for _, f := range functions {
		name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
		names = append(names, name[strings.LastIndex(name, ".")+1:])
	}
	return names
}
