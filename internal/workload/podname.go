package workload

import (
	"math/bits"
	"slices"
	"strings"

	"attune.io/attune/api/v1alpha1"
)

// KindName identifies a workload within a known namespace.
type KindName struct {
	// Kind of the workload.
	Kind v1alpha1.WorkloadKind
	// Name of the workload.
	Name string
}

// Match is the result of PodIndex.Of.
type Match uint8

const (
	// MatchNone: no workload of the index has pods with that name.
	MatchNone Match = iota
	// MatchFound: exactly one workload has pods with that name.
	MatchFound
	// MatchAmbiguous: workloads of different kinds with names of the same length match, and the name cannot tell them
	// apart.
	MatchAmbiguous
)

// PodIndex finds the workload of a deleted pod, whose owner is not known any more, by the pod's name among the
// workloads of one namespace. Names are anchored: the name of a Deployment's pod is the Deployment's name, a template
// hash of 1 to 10 characters and a random suffix of 5. A prefix match would confuse my-app with my-app-v2.
//
// Do not add workloads that another workload owns (a Deployment's ReplicaSets, a CronJob's Jobs): their names are
// longer and would win. The zero value is empty. A PodIndex is immutable, so it is safe for concurrent use.
type PodIndex struct {
	kinds map[string]kindSet
	// scaled has the kind of each name in kinds that belongs to a workload of a kind in scaledKinds; empty if several
	// such workloads have the name.
	scaled map[string]v1alpha1.WorkloadKind
	// cut has the workloads whose names do not fit into a generated name, by the part that fits.
	cut map[string][]KindName
}

// NewPodIndex returns an index of the workloads; duplicates count once.
func NewPodIndex(workloads []KindName) PodIndex {
	index := PodIndex{kinds: make(map[string]kindSet, len(workloads)), scaled: map[string]v1alpha1.WorkloadKind{}, cut: map[string][]KindName{}}
	for _, w := range workloads {
		index.add(w)
	}
	return index
}

// add ignores kinds that attune does not size.
func (x PodIndex) add(w KindName) {
	bit := bitOf(w.Kind)
	known := x.kinds[w.Name]&bit != 0
	if bit == 0 || known && (bit != added || x.scaled[w.Name] == w.Kind) {
		return
	}
	switch {
	case bit == added && known:
		x.scaled[w.Name] = ""
	case bit == added:
		x.scaled[w.Name] = w.Kind
	}
	x.kinds[w.Name] |= bit
	if len(w.Name) >= maxGenerated {
		key := w.Name[:maxGenerated]
		x.cut[key] = append(x.cut[key], w)
	}
}

// Of returns the workload with the longest name that matches the pod's name. It needs a few map lookups, regardless of
// the number of workloads, and allocates nothing.
func (x PodIndex) Of(pod string) (KindName, Match) {
	for _, candidate := range candidates(pod) {
		if candidate.kinds == 0 {
			continue
		}
		// Kinds in scaledKinds may name their pods in any of these ways.
		if found := x.kinds[candidate.name] & (candidate.kinds | added); found != 0 {
			return x.only(candidate, found)
		}
	}
	return x.ofCut(pod)
}

// only returns the workload if exactly one kind matches.
func (x PodIndex) only(of candidate, found kindSet) (KindName, Match) {
	name := of.name
	kind, one := found.kind()
	if found == added {
		kind = x.scaled[name]
		one = kind != "" && of.kinds&added != 0
	}
	if !one {
		return KindName{}, MatchAmbiguous
	}
	return KindName{Kind: kind, Name: name}, MatchFound
}

// ofCut finds a workload whose name was cut in the pod's name. The names of a StatefulSet's pods are not generated, so
// they are never cut.
func (x PodIndex) ofCut(pod string) (KindName, Match) {
	if !isCut(pod) {
		return KindName{}, MatchNone
	}
	owner, match := KindName{}, MatchNone
	for _, w := range x.cut[pod[:maxGenerated]] {
		if w.Kind == v1alpha1.KindStatefulSet {
			continue
		}
		if match == MatchFound {
			return KindName{}, MatchAmbiguous
		}
		owner, match = w, MatchFound
	}
	return owner, match
}

// candidate is a possible name of the pod's workload, with the kinds that could have added the rest of the pod's name.
type candidate struct {
	name  string
	kinds kindSet
}

// candidates returns the possible names of the pod's workload, the longest first.
func candidates(pod string) [3]candidate {
	one, last, _ := cutLast(pod)
	if isCut(pod) && pod[maxGenerated-1] != '-' {
		// The name before the random suffix was cut, together with its dash: its rest is a part of a Deployment's hash.
		if two, hash, ok := cutLast(pod[:maxGenerated]); ok && len(hash) <= maxHash && isAlphanumeric(hash) {
			return [3]candidate{{name: two, kinds: deployment | rollout}}
		}
		return [3]candidate{}
	}
	two, middle, _ := cutLast(one)
	three, index, _ := cutLast(two)
	return [3]candidate{
		{name: one, kinds: afterOne(last) | afterCutHash(one, last)},
		{name: two, kinds: afterTwo(middle, last)},
		{name: three, kinds: afterThree(index, middle, last)},
	}
}

// afterOne, afterTwo and afterThree return the kinds whose pods have these last parts after the workload's name.
func afterOne(last string) kindSet {
	var kinds kindSet
	if isNumber(last) {
		kinds |= statefulSet | added
	}
	if isRandom(last) {
		kinds |= daemonSet | replicaSet | job | added
	}
	return kinds
}

// afterCutHash is a Deployment or Rollout whose long name left room for the dash, but not for the hash.
func afterCutHash(one, last string) kindSet {
	if len(one) == maxGenerated-1 && isRandom(last) {
		return deployment | rollout
	}
	return 0
}

func afterTwo(middle, last string) kindSet {
	var kinds kindSet
	if !isRandom(last) {
		return 0
	}
	if middle != "" && len(middle) <= maxHash && isAlphanumeric(middle) {
		kinds |= deployment | rollout
	}
	if isNumber(middle) {
		// The index of an indexed Job, or the minute of a CronJob's Job.
		kinds |= job | cronJob
	}
	return kinds
}

// afterThree is an indexed Job of a CronJob: name-minute-index-suffix.
func afterThree(minute, index, last string) kindSet {
	if isRandom(last) && isNumber(index) && isNumber(minute) {
		return cronJob
	}
	return 0
}

const (
	// randomLength is the length of the suffix that the API server generates.
	randomLength = 5
	// maxGenerated is how much of a name the API server keeps before the suffix, so that the result fits into the 63
	// characters of a label.
	maxGenerated = 63 - randomLength
	// maxHash is the length of the longest pod template hash.
	maxHash = 10
)

// isCut reports whether a pod's name may have been cut to fit with a random suffix.
func isCut(pod string) bool {
	return len(pod) == maxGenerated+randomLength && isRandom(pod[maxGenerated:])
}

// cutLast splits a name at its last dash; false if there is no dash or no text before it.
func cutLast(name string) (before, after string, found bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

func isRandom(s string) bool { return len(s) == randomLength && isAlphanumeric(s) }

func isAlphanumeric(s string) bool { return strings.Trim(s, digits+"abcdefghijklmnopqrstuvwxyz") == "" }

func isNumber(s string) bool { return s != "" && strings.Trim(s, digits) == "" }

const digits = "0123456789"

// kindSet is a set of kinds, one bit for each.
type kindSet uint8

const (
	deployment kindSet = 1 << iota
	statefulSet
	daemonSet
	replicaSet
	job
	cronJob
	rollout
	// added is any kind in scaledKinds.
	added
)

// bitOf returns the bit of a kind; 0 for an unknown kind.
func bitOf(kind v1alpha1.WorkloadKind) kindSet {
	if i := slices.Index(Kinds, kind); i >= 0 {
		return 1 << i
	}
	if IsScaled(kind) {
		return added
	}
	return 0
}

// kind returns the only kind of the set; false if the set has several kinds or none.
func (s kindSet) kind() (v1alpha1.WorkloadKind, bool) {
	if bits.OnesCount8(uint8(s)) != 1 || s == added {
		return "", false
	}
	return Kinds[bits.TrailingZeros8(uint8(s))], true
}
