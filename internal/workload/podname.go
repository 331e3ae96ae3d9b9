package workload

import (
	"math/bits"
	"slices"
	"strings"

	"attune.io/attune/api/v1alpha1"
)

// KindName identifies a workload within a namespace that the context gives.
type KindName struct {
	// Kind of the workload.
	Kind v1alpha1.WorkloadKind
	// Name of the workload.
	Name string
}

// Match is the result of PodIndex.Of.
type Match uint8

const (
	// MatchNone: no workload of the index has pods of that name.
	MatchNone Match = iota
	// MatchFound: exactly one workload has.
	MatchFound
	// MatchAmbiguous: workloads of different kinds with names of the same length have, and the name cannot tell
	// them apart.
	MatchAmbiguous
)

// PodIndex finds a pod's workload among those of one namespace by the pod's name alone, for the pods that are gone and
// whose owners can no longer be asked. Names are anchored: a Deployment's pod is the Deployment's name, a template hash of
// 1 to 10 characters and a random suffix of 5. A prefix would mix my-app with my-app-v2.
//
// Workloads that are owned by another (a Deployment's ReplicaSets, a CronJob's Jobs) must not be in it: their names are
// longer, and would win. The zero value is empty. A PodIndex never changes once it is made, so any number of goroutines may
// read it.
type PodIndex struct {
	kinds map[string]kindSet
	// scaled holds the kind of each name in kinds that is of a workload whose kind the operator's owner adds; empty:
	// of several.
	scaled map[string]v1alpha1.WorkloadKind
	// cut holds the workloads whose names do not fit into a generated name, by the part that does.
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

// add ignores kinds that are not sized.
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

// Of returns the workload to which a pod belongs by its name: the one with the longest matching name. It costs a
// few map lookups, however many workloads there are, and allocates nothing.
func (x PodIndex) Of(pod string) (KindName, Match) {
	for _, candidate := range candidates(pod) {
		if candidate.kinds == 0 {
			continue
		}
		// Kinds that are added may name their pods in any of these ways.
		if found := x.kinds[candidate.name] & (candidate.kinds | added); found != 0 {
			return x.only(candidate, found)
		}
	}
	return x.ofCut(pod)
}

// only returns the workload if exactly one kind is left.
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

// ofCut finds a workload whose own name did not fit into the pod's. The pods of a StatefulSet have no generated
// names, so they are never cut.
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

// candidate is a possible name of the pod's workload, with the kinds that could have added the rest of the pod's
// name.
type candidate struct {
	name  string
	kinds kindSet
}

// candidates returns the possible names of the pod's workload, the longest first.
func candidates(pod string) [3]candidate {
	one, last, _ := cutLast(pod)
	if isCut(pod) && pod[maxGenerated-1] != '-' {
		// The end of the name before the random suffix was cut, its dash with it: what is left of it is a
		// Deployment's hash.
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

// afterCutHash is a Deployment or Rollout whose name left room for its dash, but for nothing of the hash.
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
	// randomLength is that of the suffix which the API server generates.
	randomLength = 5
	// maxGenerated is how much of a name the API server leaves in front of it, so that the whole fits into
	// a label's 63 characters.
	maxGenerated = 63 - randomLength
	// maxHash is the length of the longest pod template hash.
	maxHash = 10
)

// isCut reports whether a pod's name was cut so that it fits with a random suffix.
func isCut(pod string) bool {
	return len(pod) == maxGenerated+randomLength && isRandom(pod[maxGenerated:])
}

// cutLast splits a name at its last dash; false where there is no dash or nothing before it.
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
	// added is any kind that the operator's owner adds.
	added
)

// bitOf is a kind's bit, 0 for a kind that is not known.
func bitOf(kind v1alpha1.WorkloadKind) kindSet {
	if i := slices.Index(Kinds, kind); i >= 0 {
		return 1 << i
	}
	if IsScaled(kind) {
		return added
	}
	return 0
}

// kind is the one kind of the set; false if there are several or none.
func (s kindSet) kind() (v1alpha1.WorkloadKind, bool) {
	if bits.OnesCount8(uint8(s)) != 1 || s == added {
		return "", false
	}
	return Kinds[bits.TrailingZeros8(uint8(s))], true
}
