package resize

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// The tries of a workload are all that it remembers of what did not work. Each row ends; while it stands, the gate
// triedLately keeps the same from being tried again. What fails again after that waits twice as long, up to
// mostBackoff times; a row that has been over for as long as it stood is forgotten.

const (
	// mostAlike pods may be told the same before it counts as told to the workload.
	mostAlike = 5
	// mostMessage is how many bytes of a message are kept.
	mostMessage = 256
	// unheardLasts is how long a resize that never reached the API server is remembered at least.
	unheardLasts = 10 * UnobservedFor
	// terminalRest is how long a resize that can never be valid is not sent again: a server may be upgraded.
	terminalRest = 48 * time.Hour
	// failedLimitRest is how long memory limits are left alone after one could not be lowered.
	failedLimitRest = 24 * time.Hour
	// catchUpRest is how long a pod whose limit did not follow those of its containers is left alone.
	catchUpRest = time.Hour
)

// Declined notes the API server's answer to a plan of a pod. Rights are the operator's and not the workload's: what
// lacks them is remembered where they are.
func Declined(tries []v1alpha1.Try, outcome Outcome, pod *corev1.Pod, plan Plan, w World) []v1alpha1.Try {
	if outcome.Kind == OutcomeRBAC {
		return tries
	}
	t := v1alpha1.Try{What: v1alpha1.TryResize, Reason: outcome.Reason, Message: outcome.Message, Terms: termsOf(outcome.Reason, w)}
	if outcome.ofOnePod() {
		t.Pod, t.PodUID = pod.Name, pod.UID
	}
	if outcome.Reason == refusedQuota && !plan.Grows() {
		t.Reason, t.Terms = refusedLowering, termsOf(refusedQuota, w)
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
	return tried(tries, t, outcome.rest(), w.Now)
}

// aboutSize are the reasons of answers that may be others where less is asked for.
var aboutSize = map[string]bool{refusedQuota: true, refusedLimitRange: true, string(causeNodeCapacity): true, admissionPolicy.Reason: true}

// moreMemory is how much more memory a plan asks for; nil: no more.
func moreMemory(p Plan) *resource.Quantity {
	var more recommender.Amount
	for _, m := range p.Moves {
		from, to := m.From[recommender.Memory], m.To[recommender.Memory]
		more += max(0, to.Request-from.Request) + max(0, to.Limit-from.Limit)
	}
	if more == 0 {
		return nil
	}
	amount := podview.Quantity(recommender.Memory, more)
	return &amount
}

// less: an answer about less memory than that of a row which stands, on the same terms.
func less(t, row v1alpha1.Try, now time.Time) bool {
	return aboutSize[t.Reason] && t.Amount != nil && now.Before(row.Until.Time) && t.Terms == row.Terms && (row.Amount == nil || reached(t) < reached(row))
}

// refusedLowering: a quota refused what does not even grow, so that lowering does not pass by its row.
const refusedLowering = "QuotaRefusesLowering"

// ofOnePod: the answer is about that pod alone, and not about all that a workload asks for.
func (o Outcome) ofOnePod() bool {
	switch o.Kind {
	case OutcomeTerminal, OutcomeInfeasible, OutcomeConflict, OutcomeGone, OutcomeUnknown:
		return true
	}
	return false
}

// rest is how long the answer stands when it is given for the first time.
func (o Outcome) rest() time.Duration {
	switch o.Kind {
	case OutcomeTerminal:
		return terminalRest
	case OutcomeGone, OutcomeUnknown:
		return time.Minute
	}
	return max(o.RetryAfter, soon)
}

// Unheard notes that a resize never reached the API server, or that its answer and its effect are not to be seen. That
// took UnobservedFor to know, so the first one is waited for no longer; those that follow it are.
func Unheard(tries []v1alpha1.Try, record v1alpha1.ResizeRecord, now time.Time) []v1alpha1.Try {
	t := v1alpha1.Try{What: v1alpha1.TryResize, Pod: record.PodName, PodUID: record.PodUID, Reason: ReasonNotSent, Message: "the resize never reached the API server"}
	tries = tried(tries, t, unanswered.rest(), now)
	if last := &tries[len(tries)-1]; last.Times == 1 {
		last.Until = last.Since
	}
	return tries
}

// Accepted: a resize of a pod was taken, so that what was in its way, and in that of the workload, is over. What is
// known of other pods stays, as does what the API server's consent says nothing of.
func Accepted(tries []v1alpha1.Try, pod v1alpha1.ResizeRecord) []v1alpha1.Try {
	return slices.DeleteFunc(slices.Clone(tries), func(t v1alpha1.Try) bool {
		return t.What == v1alpha1.TryResize && t.Digest == "" && (t.Pod == "" || t.PodUID == pod.PodUID)
	})
}

// NotDone notes what a record says that its node did not carry out: its size that the node would not have, the
// memory limit that could not be lowered, or what the node's runtime refused to do.
func NotDone(tries []v1alpha1.Try, record v1alpha1.ResizeRecord, reason, message string, rules Rules, now time.Time) []v1alpha1.Try {
	t := v1alpha1.Try{Node: record.Node, Digest: digestOfRecord(record), Reason: reason, Message: message}
	rest := max(rules.Cooldown, blockFor)
	switch {
	case reason == ReasonInfeasible:
		t.What, t.Pod, t.PodUID = v1alpha1.TryResize, record.PodName, record.PodUID
	case reason != ReasonActuation:
		return tries
	case anyChange(record, lowersMemoryLimit):
		t = v1alpha1.Try{What: v1alpha1.TryMemoryLimit, Reason: reason, Message: message}
		return unlessKnown(tries, t, failedLimitRest, now)
	case anyChange(record, Move.Raises):
		t.What, t.Digest = v1alpha1.TryActuation, ""
	default:
		t.What = v1alpha1.TryActuation
	}
	return unlessKnown(tries, t, rest, now)
}

// unlessKnown adds a row unless the same stands already: what failed meanwhile had begun before it was known.
func unlessKnown(tries []v1alpha1.Try, t v1alpha1.Try, rest time.Duration, now time.Time) []v1alpha1.Try {
	known := slices.ContainsFunc(tries, func(k v1alpha1.Try) bool {
		return subject(k) == subject(t) && k.Digest == t.Digest && now.Before(k.Until.Time)
	})
	if known {
		return tries
	}
	return tried(tries, t, rest, now)
}

// Begun notes a resize that begins where it is one that may not be begun too often.
func Begun(tries []v1alpha1.Try, plan Plan, now time.Time) []v1alpha1.Try {
	switch {
	case plan.Reason == ReasonPodLimitBehind:
		t := v1alpha1.Try{What: v1alpha1.TryCatchUp, Pod: plan.PodName, PodUID: plan.PodUID, Reason: plan.Reason}
		return tried(tries, t, catchUpRest, now)
	case plan.Urgent:
		for _, m := range plan.Moves {
			tries = answered(tries, m, now)
		}
	}
	return tries
}

// tried adds a row that stands for a while, and longer where the same failed lately.
func tried(tries []v1alpha1.Try, t v1alpha1.Try, rest time.Duration, now time.Time) []v1alpha1.Try {
	t.Since, t.Times, t.Message = metav1.NewTime(now), 1, cut(t.Message)
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
	t.Until = metav1.NewTime(now.Add(doubled(rest, t.Times-1)))
	return bounded(append(kept, t))
}

// aboutAll: the row says the same as another one, of the whole workload.
func aboutAll(k, t v1alpha1.Try) bool {
	return k.What == t.What && t.What == v1alpha1.TryResize && k.Reason == t.Reason && k.Pod == ""
}

// subject is what a row is about, but for the sizes that were asked for.
func subject(t v1alpha1.Try) [6]string {
	return [6]string{string(t.What), t.Reason, t.Pod, string(t.PodUID), t.Container, t.Node}
}

// Remembered are the rows that are not forgotten yet.
func Remembered(tries []v1alpha1.Try, now time.Time) []v1alpha1.Try {
	return slices.DeleteFunc(slices.Clone(tries), func(t v1alpha1.Try) bool {
		stood := t.Until.Sub(t.Since.Time)
		switch {
		case !doubles(t.What):
			stood = 0
		case t.Reason == ReasonNotSent:
			stood = max(stood, unheardLasts)
		}
		return !now.Before(t.Until.Add(stood))
	})
}

// doubles: what fails again soon after the row's end waits longer.
func doubles(what v1alpha1.TryKind) bool {
	return what == v1alpha1.TryResize || what == v1alpha1.TryActuation
}

// bounded puts rows together until there are few enough: those of one pod, then those of pods that were told the
// same by the API server, then whatever there is most of.
func bounded(tries []v1alpha1.Try) []v1alpha1.Try {
	for _, group := range []struct {
		key  func(v1alpha1.Try) string
		most int
	}{
		{func(t v1alpha1.Try) string { return strings.Join(append([]string{"pod"}, array(subject(t))...), "/") }, mostAlike - 1},
		{toldAlike, mostAlike - 1},
	} {
		tries = together(tries, group.key, group.most)
	}
	for len(tries) > v1alpha1.MaxTries {
		before := len(tries)
		tries = togetherMost(tries)
		if len(tries) == before {
			return tries[before-v1alpha1.MaxTries:]
		}
	}
	return tries
}

func array(a [6]string) []string { return a[:] }

// toldAlike is what pods were told by the API server whatever their nodes; empty: the answer depends on the pod's node.
func toldAlike(t v1alpha1.Try) string {
	if t.What != v1alpha1.TryResize || t.Pod == "" || t.Node != "" {
		return ""
	}
	return t.Reason
}

// together makes one row of each group that has more rows than that.
func together(tries []v1alpha1.Try, key func(v1alpha1.Try) string, most int) []v1alpha1.Try {
	counts := map[string]int{}
	for _, t := range tries {
		counts[key(t)]++
	}
	for of, n := range counts {
		if of != "" && n > most {
			tries = merged(tries, func(t v1alpha1.Try) bool { return key(t) == of })
		}
	}
	return tries
}

// togetherMost makes one row of the most rows of one kind and reason.
func togetherMost(tries []v1alpha1.Try) []v1alpha1.Try {
	counts := map[[2]string]int{}
	of := func(t v1alpha1.Try) [2]string { return [2]string{string(t.What), t.Reason} }
	for _, t := range tries {
		counts[of(t)]++
	}
	most := of(slices.MaxFunc(tries, func(a, b v1alpha1.Try) int {
		return cmp.Or(cmp.Compare(counts[of(a)], counts[of(b)]), cmp.Compare(a.Reason, b.Reason))
	}))
	return merged(tries, func(t v1alpha1.Try) bool { return of(t) == most })
}

// merged makes one row of some: about what they have in common, for as long as the last of them stands.
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
	if b.Since.Time.Before(a.Since.Time) && !doubles(a.What) {
		a.Since = b.Since
	}
	if b.Amount != nil && (a.Amount == nil || b.Amount.Cmp(*a.Amount) < 0) && a.What == v1alpha1.TryResize {
		a.Amount = b.Amount
	}
	a.Times = max(a.Times, b.Times)
	return a
}

// anySizeRests is how long the API server's answers to different sizes keep any size from being asked for: what was
// never valid of each says little of another one.
const anySizeRests = 10 * time.Minute

// anySize is until when one row stands for answers to different sizes.
func anySize(a, b v1alpha1.Try) metav1.Time {
	soon := metav1.NewTime(latest(a.Since.Time, b.Since.Time).Add(anySizeRests))
	if a.What == v1alpha1.TryResize && soon.Before(&a.Until) {
		return soon
	}
	return a.Until
}

// digestOf names the sizes that a plan asks for, and the generation of the pod that they are asked of (0: any).
func digestOf(p Plan, generation int64) string {
	asked := map[string]recommender.Size{}
	for _, m := range p.Moves {
		asked[m.Container] = newAmounts(m)
	}
	return digest(generation, asked)
}

func digestOfRecord(record v1alpha1.ResizeRecord) string {
	asked := map[string]recommender.Size{}
	for _, c := range Changes(record) {
		if m := c.Move(); m.From != m.To {
			asked[c.Container] = newAmounts(m)
		}
	}
	return digest(0, asked)
}

// newAmounts are those of a move that are not as before.
func newAmounts(m Move) recommender.Size {
	for _, r := range recommender.Resources {
		if m.To[r].Request == m.From[r].Request {
			m.To[r].Request = 0
		}
		if m.To[r].Limit == m.From[r].Limit {
			m.To[r].Limit = 0
		}
	}
	return m.To
}

func digest(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic("maps of numbers always marshal: " + err.Error())
	}
	h := fnv.New64a()
	_, _ = h.Write(text)
	return fmt.Sprintf("%016x", h.Sum64())
}

// termsOf names the versions of what an answer rests on; empty for one that rests on nothing we see.
func termsOf(reason string, w World) string {
	var terms []string
	switch reason {
	case refusedQuota, refusedLowering, refusedQuotaKeys, refusedQuotaStatus:
		for _, q := range w.Quotas {
			terms = append(terms, q.Name+"="+q.ResourceVersion)
		}
	case refusedLimitRange:
		for _, l := range w.LimitRanges {
			terms = append(terms, l.Name+"="+l.ResourceVersion)
		}
	default:
		return ""
	}
	slices.Sort(terms)
	return digest(terms)
}

// cut is a text of at most mostMessage bytes, without half a character.
func cut(text string) string {
	if len(text) <= mostMessage {
		return text
	}
	return strings.ToValidUTF8(text[:mostMessage], "")
}

func anyChange(record v1alpha1.ResizeRecord, is func(Move) bool) bool {
	return slices.ContainsFunc(Changes(record), func(c Change) bool { return is(c.Move()) })
}

// TriesInOurTime takes what another replica wrote, with a clock that is ahead, as noted just now.
func TriesInOurTime(tries []v1alpha1.Try, now time.Time) []v1alpha1.Try {
	tries = slices.Clone(tries)
	for i, t := range tries {
		if ahead := t.Since.Sub(now); ahead > 0 {
			tries[i].Since, tries[i].Until = metav1.NewTime(now), metav1.NewTime(t.Until.Add(-ahead))
		}
	}
	return tries
}
