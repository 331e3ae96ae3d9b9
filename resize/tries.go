package resize

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// The tries of a workload are its record of failed resizes. Each row expires; until then, the gate triedLately blocks
// the same resize. If the same fails again, the wait doubles, up to mostBackoff times. A row is removed after it has
// been over for as long as it was active.

const (
	// mostAlike is the number of pods with the same answer at which the answer counts for the whole workload.
	mostAlike = 5
	// mostMessage is the maximum length of a stored message, in bytes.
	mostMessage = 256
	// unheardLasts is the minimum time for which a resize that never reached the API server is remembered, and a
	// StartPlan: it may take longer than its first waits.
	unheardLasts = 10 * UnobservedFor
	// terminalRest is how long a resize that is never valid is not sent again. It expires because a newer API server
	// may accept the resize.
	terminalRest = 48 * time.Hour
	// failedLimitRest is how long memory limits are not lowered after a decrease failed.
	failedLimitRest = 24 * time.Hour
	// catchUpRest is how long a pod whose limit did not follow the limits of its containers is not tried again.
	catchUpRest = time.Hour
	// startRest is how long a pod whose containers could not start (StartPlan) is not tried again.
	startRest = time.Minute
)

// UnobservedFor is how long a kubelet may take to observe a resize.
const UnobservedFor = 60 * time.Second

// Declined records the API server's answer to a plan of a pod and returns the new tries. It does not record missing
// permissions: they concern attune and not the workload, and are remembered by the check of permissions.
func Declined(tries []v1alpha1.Try, outcome Outcome, pod *corev1.Pod, plan Plan, in GateInput) []v1alpha1.Try {
	if outcome.Kind == OutcomeRBAC {
		return tries
	}
	t := v1alpha1.Try{What: v1alpha1.TryResize, Reason: outcome.Reason, Message: outcome.Message, Terms: termsOf(outcome.Reason, in)}
	if outcome.ofOnePod() {
		t.Pod, t.PodUID = pod.Name, pod.UID
	}
	if outcome.Reason == refusedQuota && !plan.Grows() {
		t.Reason, t.Terms = refusedLowering, termsOf(refusedQuota, in)
	}
	if aboutSize[outcome.Reason] {
		t.Amount = moreMemory(plan)
	}
	switch outcome.Kind {
	case OutcomeTerminal:
		t.Digest = digestOf(plan, pod.Generation)
	case OutcomeInfeasible:
		t.Node = pod.Spec.NodeName
	}
	return addTry(tries, t, outcome.rest(), in.Now)
}

// aboutSize has the reasons of answers that may differ for a smaller request.
var aboutSize = map[string]bool{refusedQuota: true, refusedLimitRange: true, string(causeNodeCapacity): true, admissionPolicy.Reason: true}

// moreMemory returns the additional memory that a plan requests, requests plus limits; nil if there is no increase.
func moreMemory(p Plan) *resource.Quantity {
	var more recommender.Amount
	for _, m := range p.Moves {
		from, to := m.From[recommender.Memory], m.To[recommender.Memory]
		more += max(0, to.Request-from.Request) + max(0, to.Limit-from.Limit)
	}
	return podview.ToPointer(recommender.Memory, more)
}

// less reports whether an answer concerns less memory than an active row with the same terms. The row then only takes
// over the smaller amount.
func less(t, row v1alpha1.Try, now time.Time) bool {
	return aboutSize[t.Reason] && t.Amount != nil && now.Before(row.Until.Time) && t.Terms == row.Terms && (row.Amount == nil || reached(t) < reached(row))
}

// refusedLowering is the reason of a quota's refusal of a plan that does not grow. It has its own row, because plans
// that do not grow pass the row of refusedQuota.
const refusedLowering = "QuotaRefusesLowering"

// ofOnePod reports whether the answer concerns only that pod and not every request of the workload.
func (o Outcome) ofOnePod() bool {
	switch o.Kind {
	case OutcomeTerminal, OutcomeInfeasible, OutcomeConflict, OutcomeGone, OutcomeUnknown:
		return true
	}
	return false
}

// rest returns how long the answer is active the first time.
func (o Outcome) rest() time.Duration {
	switch o.Kind {
	case OutcomeTerminal:
		return terminalRest
	case OutcomeGone, OutcomeUnknown:
		return time.Minute
	}
	return max(o.RetryAfter, soon)
}

// Unheard records that a resize never reached the API server, or that neither its answer nor its effect is visible.
// That took UnobservedFor to find out, so the first such row ends at once; rows that follow within unheardLasts wait
// longer and longer.
func Unheard(tries []v1alpha1.Try, record v1alpha1.ResizeRecord, now time.Time) []v1alpha1.Try {
	t := v1alpha1.Try{What: v1alpha1.TryResize, Pod: record.PodName, PodUID: record.PodUID, Reason: ReasonNotSent, Message: "the resize never reached the API server"}
	tries = addTry(tries, t, unanswered.rest(), now)
	if last := &tries[len(tries)-1]; last.Times == 1 {
		last.Until = last.Since
	}
	return tries
}

// Accepted removes the rows about refusals of the pod and of its workload after the API server accepted a resize of the
// pod. Rows about other pods, and rows that an accepted resize does not disprove, stay.
func Accepted(tries []v1alpha1.Try, pod v1alpha1.ResizeRecord) []v1alpha1.Try {
	return slices.DeleteFunc(slices.Clone(tries), func(t v1alpha1.Try) bool {
		return t.What == v1alpha1.TryResize && t.Digest == "" && t.Reason != ReasonHPASync && (t.Pod == "" || t.PodUID == pod.PodUID)
	})
}

// NotDone records that the record's node did not carry out its resize: it refused the size, could not lower a memory
// limit, or its container runtime failed to make a change.
func NotDone(tries []v1alpha1.Try, record v1alpha1.ResizeRecord, reason, message string, rules Rules, now time.Time) []v1alpha1.Try {
	t := v1alpha1.Try{Node: record.Node, Digest: digestOfRecord(record), Reason: reason, Message: message}
	rest := max(rules.Cooldown, blockFor)
	switch {
	case reason == ReasonInfeasible:
		t.What, t.Pod, t.PodUID = v1alpha1.TryResize, record.PodName, record.PodUID
	case reason != ReasonActuation:
		return tries
	case AnyChange(record, Move.LowersMemoryLimit):
		t = v1alpha1.Try{What: v1alpha1.TryMemoryLimit, Reason: reason, Message: message}
		return unlessKnown(tries, t, failedLimitRest, now)
	case AnyChange(record, Move.Raises):
		t.What, t.Digest = v1alpha1.TryActuation, ""
	default:
		t.What = v1alpha1.TryActuation
	}
	return unlessKnown(tries, t, rest, now)
}

// notInSyncLasts is the minimum time for which NotInSync is remembered: the next resize step may come after a long cooldown.
const notInSyncLasts = 12 * time.Hour

// NotInSync records that the record's node did not carry out a raise of a request on which an HPA scales. Each attempt
// shows the HPA for a moment a request that the pod does not have, so the wait doubles.
func NotInSync(tries []v1alpha1.Try, record v1alpha1.ResizeRecord, message string, now time.Time) []v1alpha1.Try {
	t := v1alpha1.Try{What: v1alpha1.TryResize, Pod: record.PodName, PodUID: record.PodUID, Node: record.Node, Reason: ReasonHPASync, Message: message}
	return unlessKnown(tries, t, blockFor, now)
}

// NotInSyncBefore reports whether NotInSync was recorded for the record's pod before.
func NotInSyncBefore(tries []v1alpha1.Try, record v1alpha1.ResizeRecord) bool {
	return slices.ContainsFunc(tries, func(t v1alpha1.Try) bool {
		return t.What == v1alpha1.TryResize && t.Reason == ReasonHPASync && t.PodUID == record.PodUID
	})
}

// unlessKnown adds a row unless the same row is still active: a failure meanwhile belongs to a resize that began before
// the row was known, and must not double its wait.
func unlessKnown(tries []v1alpha1.Try, t v1alpha1.Try, rest time.Duration, now time.Time) []v1alpha1.Try {
	known := slices.ContainsFunc(tries, func(k v1alpha1.Try) bool {
		return subject(k) == subject(t) && k.Digest == t.Digest && now.Before(k.Until.Time)
	})
	if known {
		return tries
	}
	return addTry(tries, t, rest, now)
}

// Begun records the beginning of a resize whose number is limited: a CatchUp of the pod's limit, a StartPlan, or an
// answer to an OOM kill.
func Begun(tries []v1alpha1.Try, plan Plan, now time.Time) []v1alpha1.Try {
	switch {
	case plan.Reason == ReasonPodLimitBehind, plan.Reason == ReasonNotRunning:
		t := v1alpha1.Try{What: v1alpha1.TryCatchUp, Pod: plan.PodName, PodUID: plan.PodUID, Reason: plan.Reason}
		rest := catchUpRest
		if plan.Reason == ReasonNotRunning {
			rest = startRest
		}
		return addTry(tries, t, rest, now)
	case plan.Reason == ReasonClimb: // package climb counts them
	case plan.Urgent:
		for _, m := range plan.Moves {
			tries = answered(tries, m, now)
		}
	}
	return tries
}

// addTry adds a row that is active for the time rest, doubled for each recent failure of the same kind. It first
// searches a row with exactly the same subject, then a row of the whole workload that includes it; the new row replaces
// the row that it finds.
func addTry(tries []v1alpha1.Try, t v1alpha1.Try, rest time.Duration, now time.Time) []v1alpha1.Try {
	t.Since, t.Times, t.Message = metav1.NewTime(now), 1, CutMessage(t.Message)
	kept := Remembered(tries, now)
	for _, same := range []func(v1alpha1.Try) bool{
		func(k v1alpha1.Try) bool { return subject(k) == subject(t) && k.Digest == t.Digest },
		func(k v1alpha1.Try) bool { return aboutAll(k, t) && k.Node == t.Node },
		func(k v1alpha1.Try) bool { return aboutAll(k, t) && k.Node == "" },
	} {
		if i := slices.IndexFunc(kept, same); i >= 0 {
			k := kept[i]
			if less(t, k, now) {
				kept[i].Amount = t.Amount
				return kept
			}
			if k.Digest != t.Digest {
				t.Digest, rest = "", min(rest, anySizeRests)
			}
			t.Pod, t.PodUID, t.Node, t.Times = k.Pod, k.PodUID, k.Node, k.Times+1
			kept = slices.Delete(kept, i, i+1)
			break
		}
	}
	t.Until = metav1.NewTime(now.Add(Doubled(rest, t.Times-1)))
	return bounded(append(kept, t))
}

// aboutAll reports whether row k is about the whole workload and has the same kind and reason as t.
func aboutAll(k, t v1alpha1.Try) bool {
	return k.What == t.What && t.What == v1alpha1.TryResize && k.Reason == t.Reason && k.Pod == ""
}

// subject identifies the subject of a row, without the requested sizes.
func subject(t v1alpha1.Try) string {
	return strings.Join([]string{string(t.What), t.Reason, t.Pod, string(t.PodUID), t.Container, t.Node}, "\x00")
}

// Remembered returns the rows that still matter: rows that are active, and rows after whose end a repeated failure
// would still double the wait.
func Remembered(tries []v1alpha1.Try, now time.Time) []v1alpha1.Try {
	return slices.DeleteFunc(slices.Clone(tries), func(t v1alpha1.Try) bool {
		stood := t.Until.Sub(t.Since.Time)
		switch {
		case !doubles(t):
			stood = 0
		case t.Reason == ReasonHPASync:
			stood = max(stood, notInSyncLasts)
		case t.Reason == ReasonNotSent, t.Reason == ReasonNotRunning:
			stood = max(stood, unheardLasts)
		}
		return !now.Before(t.Until.Add(stood))
	})
}

// doubles reports whether the wait of a row doubles when the same fails again soon after its end.
func doubles(t v1alpha1.Try) bool {
	return t.What == v1alpha1.TryResize || t.What == v1alpha1.TryActuation || t.What == v1alpha1.TryTarget || t.Reason == ReasonNotRunning
}

// bounded merges rows until there are at most v1alpha1.MaxTries: first rows about one pod, then rows of pods with the
// same answer of the API server, then the largest group of one kind and reason. Merged rows lose the fields in which
// they differ, such as the pod's name, and never end earlier than the last of them, except for anySizeRests. If no rows
// can be merged, the oldest are dropped. Rows of raises before an OOM kill count the raises of one pod; merged, they
// would say that every pod leaks. So the oldest of these are added up per container.
func bounded(tries []v1alpha1.Try) []v1alpha1.Try {
	tries = mergeAlikeTries(mergeAlikeTries(tries, subject), mergeKey)
	for len(tries) > v1alpha1.MaxTries {
		before := len(tries)
		tries = togetherMost(tries)
		if len(tries) == before {
			return tries[before-v1alpha1.MaxTries:]
		}
	}
	return tries
}

// AddTry returns the tries with one more row, and without rows that no longer fit (bounded). The argument is not
// changed.
func AddTry(tries []v1alpha1.Try, t v1alpha1.Try) []v1alpha1.Try {
	t.Message = CutMessage(t.Message)
	return bounded(append(slices.Clone(tries), t))
}

// mergeKey returns the key by which answers for different pods are merged; empty if the answer depends on the pod's
// node.
func mergeKey(t v1alpha1.Try) string {
	if t.What != v1alpha1.TryResize || t.Pod == "" || t.Node != "" {
		return ""
	}
	return t.Reason
}

// mergeAlikeTries merges each group of mostAlike rows into one row; rows with an empty key are in no group.
func mergeAlikeTries(tries []v1alpha1.Try, key func(v1alpha1.Try) string) []v1alpha1.Try {
	counts := map[string]int{}
	for _, t := range tries {
		counts[key(t)]++
	}
	for of, n := range counts {
		if of != "" && n >= mostAlike {
			tries = merged(tries, func(t v1alpha1.Try) bool { return key(t) == of })
		}
	}
	return tries
}

// togetherMost merges the largest group of one kind and reason into one row, or adds up its oldest row (withoutOldest).
// Ties are broken by the reason, so that the result does not depend on the order of a map.
func togetherMost(tries []v1alpha1.Try) []v1alpha1.Try {
	counts := map[[2]string]int{}
	of := func(t v1alpha1.Try) [2]string { return [2]string{string(t.What), t.Reason} }
	for _, t := range tries {
		counts[of(t)]++
	}
	most := of(slices.MaxFunc(tries, func(a, b v1alpha1.Try) int {
		return cmp.Or(cmp.Compare(counts[of(a)], counts[of(b)]), cmp.Compare(a.Reason, b.Reason))
	}))
	if most[0] == string(v1alpha1.TryClimb) {
		return withoutOldest(tries)
	}
	return merged(tries, func(t v1alpha1.Try) bool { return of(t) == most })
}

// withoutOldest adds the oldest row of a pod to its container's row without a pod. It stops after the first row that it
// could add to an existing one.
func withoutOldest(tries []v1alpha1.Try) []v1alpha1.Try {
	const what = v1alpha1.TryClimb
	for before := len(tries); len(tries) == before; {
		oldest := -1
		for i, t := range tries {
			if t.What == what && t.Pod != "" && (oldest < 0 || t.Since.Before(&tries[oldest].Since)) {
				oldest = i
			}
		}
		if oldest < 0 {
			return tries
		}
		row := tries[oldest]
		tries = slices.Delete(tries, oldest, oldest+1)
		all := slices.IndexFunc(tries, func(t v1alpha1.Try) bool { return t.What == what && t.Pod == "" && t.Container == row.Container })
		if all >= 0 {
			tries[all].Times += row.Times
			if a := tries[all].Amount; row.Amount != nil && (a == nil || a.Cmp(*row.Amount) < 0) {
				tries[all].Amount = row.Amount
			}
			continue
		}
		tries = append(tries, v1alpha1.Try{What: what, Container: row.Container, Reason: row.Reason, Amount: row.Amount, Times: row.Times, Since: row.Since, Until: row.Until})
	}
	return tries
}

// merged merges the chosen rows into one at the end. It keeps their common fields, and is active until the last of them
// ends.
func merged(tries []v1alpha1.Try, some func(v1alpha1.Try) bool) []v1alpha1.Try {
	var one v1alpha1.Try
	var kept []v1alpha1.Try
	for _, t := range tries {
		switch {
		case !some(t):
			kept = append(kept, t)
		case one.What == "":
			one = t
		default:
			one = common(one, t)
		}
	}
	return append(kept, one)
}

// common returns one row for two. It clears fields in which they differ, so that the row applies to more pods.
func common(a, b v1alpha1.Try) v1alpha1.Try {
	if b.Until.After(a.Until.Time) {
		a, b = b, a
	}
	if a.PodUID != b.PodUID {
		a.Pod, a.PodUID = "", ""
	}
	if a.Node != b.Node {
		a.Node = ""
	}
	if a.Container != b.Container {
		a.Container = ""
	}
	if a.Digest != b.Digest {
		a.Digest, a.Until = "", anySize(a, b)
	}
	if b.Since.Time.Before(a.Since.Time) && !doubles(a) {
		a.Since = b.Since
	}
	if b.Amount != nil && (a.Amount == nil || b.Amount.Cmp(*a.Amount) < 0) && a.What == v1alpha1.TryResize {
		a.Amount = b.Amount
	}
	a.Times = max(a.Times, b.Times)
	return a
}

// anySizeRests is how long the API server's answers for different sizes block every size: several invalid sizes say
// little about another one.
const anySizeRests = 10 * time.Minute

// anySize returns the end of a row that covers answers for different sizes.
func anySize(a, b v1alpha1.Try) metav1.Time {
	soon := metav1.NewTime(latest(a.Since.Time, b.Since.Time).Add(anySizeRests))
	if a.What == v1alpha1.TryResize && soon.Before(&a.Until) {
		return soon
	}
	return a.Until
}

// digestOf identifies the sizes that a plan requests, and the pod's generation for the request (0: any).
func digestOf(p Plan, generation int64) string {
	asked := map[string]recommender.Size{}
	for _, m := range p.Moves {
		asked[m.Container] = m.newAmounts()
	}
	return digest(generation, asked)
}

// digestOfRecord is digestOf for the sizes of a record, for any generation.
func digestOfRecord(record v1alpha1.ResizeRecord) string {
	var plan Plan
	for _, c := range Changes(record) {
		plan.Moves = AppendMove(plan.Moves, c.Move())
	}
	return digestOf(plan, 0)
}

// digest hashes values by their JSON, in which map keys are sorted (FNV-1a, 64 bits, hexadecimal). Rows store it, so
// with another format the rows of earlier versions would match nothing.
func digest(parts ...any) string {
	return fmt.Sprintf("%016x", podview.Hash(string(clip.JSON(parts))))
}

// termsOf identifies the objects that an answer depends on, by name and version; empty if it depends on no watched
// object.
func termsOf(reason string, in GateInput) string {
	var terms []string
	switch reason {
	case refusedQuota, refusedLowering, refusedQuotaKeys, refusedQuotaStatus:
		for _, q := range in.Namespace.Quotas {
			terms = append(terms, q.Name+"="+q.ResourceVersion)
		}
	case refusedLimitRange:
		for _, l := range in.Namespace.LimitRanges {
			terms = append(terms, l.Name+"="+l.ResourceVersion)
		}
	default:
		return ""
	}
	slices.Sort(terms)
	return digest(terms)
}

// CutMessage returns at most mostMessage bytes of a text, which other programs may have written, in one line.
func CutMessage(text string) string { return clip.Text(clip.Line(text), mostMessage) }

// TriesInOurTime returns the tries with rows that begin in the future moved back to now: another replica with a clock
// that is ahead wrote them. The argument is not changed.
func TriesInOurTime(tries []v1alpha1.Try, now time.Time) []v1alpha1.Try {
	tries = slices.Clone(tries)
	for i, t := range tries {
		if ahead := t.Since.Sub(now); ahead > 0 {
			tries[i].Since, tries[i].Until = metav1.NewTime(now), metav1.NewTime(t.Until.Add(-ahead))
		}
	}
	return tries
}
