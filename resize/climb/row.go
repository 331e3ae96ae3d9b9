package climb

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// mostRaises is how many times a container of one pod is raised within a day: after each raise its usage reached a new
// record. A container that needs still more leaks, or needs a size that a user has to choose.
const mostRaises, countsFor = 3, 24 * time.Hour

// Raises are the raises of one container within a day. The zero value: no raise.
type Raises struct {
	// Times is the number of raises since Since, to at most Reached bytes.
	Times   int
	Since   time.Time
	Reached recommender.Amount
	// Until is when they are no longer counted.
	Until time.Time
	// All: they are the raises of many pods together.
	All bool
	// Before is its memory before the first raise; zero if that was restored, or is not known.
	Before recommender.Allocation
}

// Of returns the raises of a container of a pod.
func Of(tries []v1alpha1.Try, pod *corev1.Pod, container string, now time.Time) Raises {
	i := rowOf(tries, pod, container, now)
	if i < 0 {
		return Raises{}
	}
	t := tries[i]
	return Raises{
		Times: int(t.Times), Since: t.Since.Time, Until: t.Until.Time, Reached: podview.FromPointer(recommender.Memory, t.Amount),
		Before: podview.FromResources(ptr.Deref(t.Before, v1alpha1.Resources{}))[recommender.Memory],
	}
}

// OfAll returns the raises that count for a container of a workload's live pod: its own. If the status has no room for
// a row per pod, package resize adds up the oldest rows. This sum counts instead once it reaches three raises per live
// pod.
func OfAll(tries []v1alpha1.Try, pod *corev1.Pod, container string, now time.Time, live func() []*corev1.Pod) Raises {
	own := Of(tries, pod, container, now)
	i := slices.IndexFunc(tries, func(t v1alpha1.Try) bool {
		return t.What == v1alpha1.TryClimb && t.Pod == "" && t.Container == container && t.Amount != nil && now.Before(t.Until.Time)
	})
	if i < 0 {
		return own
	}
	t, pods := tries[i], live()
	counts := slices.ContainsFunc(OfLive(tries, pods), func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryClimb })
	if int(t.Times) < mostRaises*len(pods) || !counts {
		return own
	}
	reached := max(own.Reached, podview.AmountOf(recommender.Memory, *t.Amount))
	return Raises{Times: int(t.Times), Since: t.Since.Time, Until: t.Until.Time, Reached: reached, All: true}
}

// rowOf returns the index of the active row of a pod's container; -1: there is no such row. A row without a pod is the
// sum over several pods (OfAll).
func rowOf(tries []v1alpha1.Try, pod *corev1.Pod, container string, now time.Time) int {
	return slices.IndexFunc(tries, func(t v1alpha1.Try) bool {
		return t.What == v1alpha1.TryClimb && now.Before(t.Until.Time) && t.Container == container && t.Pod == pod.Name && t.PodUID == pod.UID
	})
}

// Noted returns the tries with one more raise for each container of a plan. The argument is not changed.
func Noted(tries []v1alpha1.Try, pod *corev1.Pod, plan resize.Plan, now time.Time) []v1alpha1.Try {
	tries = resize.Remembered(tries, now)
	for _, m := range plan.Moves {
		from := m.From[recommender.Memory]
		amount := podview.Quantity(recommender.Memory, m.To[recommender.Memory].Limit)
		before := podview.ToResources(recommender.Size{recommender.Memory: from})
		i := rowOf(tries, pod, m.Container, now)
		if i >= 0 && !Of(tries, pod, m.Container, now).outgrown(from.Limit) {
			t := &tries[i]
			// Another limit than the last raise means that a new size was chosen since: a revert restores that size.
			if t.Before != nil && t.Amount != nil && podview.AmountOf(recommender.Memory, *t.Amount) != from.Limit {
				t.Before = &before
			}
			t.Times++
			t.Amount = &amount
			continue
		}
		if i >= 0 {
			tries = slices.Delete(tries, i, i+1)
		}
		tries = resize.AddTry(tries, v1alpha1.Try{
			What: v1alpha1.TryClimb, Pod: pod.Name, PodUID: pod.UID, Container: m.Container, Reason: resize.ReasonClimb,
			Times: 1, Amount: &amount, Before: &before, Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(countsFor)),
		})
	}
	return tries
}

// OfLive returns the tries without the raises of deleted pods, so that rows of live pods have room. A row summed over
// several pods stays while any live pod has its own row. The argument is not changed.
func OfLive(tries []v1alpha1.Try, live []*corev1.Pod) []v1alpha1.Try {
	there := map[types.UID]bool{}
	for _, pod := range live {
		there[pod.UID] = true
	}
	there[""] = slices.ContainsFunc(tries, func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryClimb && t.Pod != "" && there[t.PodUID] })
	return slices.DeleteFunc(slices.Clone(tries), func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryClimb && !there[t.PodUID] })
}

// outgrown reports whether a limit exceeds the limit after the raises: it was set since, and they no longer count.
func (r Raises) outgrown(limit recommender.Amount) bool { return r.Reached > 0 && limit > r.Reached }

// Raised reports whether a record belongs to a raise, even if the record's reason has changed since.
func Raised(tries []v1alpha1.Try, pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time) bool {
	return slices.ContainsFunc(record.Desired, func(c v1alpha1.ContainerResources) bool {
		reached := Of(tries, pod, c.Name, now).Reached
		return reached > 0 && podview.FromResources(c.Resources)[recommender.Memory].Limit == reached
	})
}

// refusal returns why a container with this limit is not raised again; nil: it may be raised.
func (r Raises) refusal(container string, limit recommender.Amount, now time.Time) *resize.Refusal {
	if r.Times < mostRaises || !now.Before(r.Until) || r.outgrown(limit) {
		return nil
	}
	since, until := r.Since.UTC().Format(time.RFC3339), r.Until.UTC().Format(time.RFC3339)
	refused := refuse(container, resize.ReasonLeak, "its memory was raised %d times before an OOM kill since %s, up to %s, and still grows, which looks like a memory leak. "+
		"Fix the leak, or set a higher limit. attune raises it again after %s, or in a new pod", r.Times, since, recommender.Readable(recommender.Memory, r.Reached), until)
	if r.All {
		refused = refuse(container, resize.ReasonLeak, "the memory of the workload's pods was raised three times each before an OOM kill since %s, and still grows, which looks like a "+
			"memory leak. Fix the leak, or set a higher limit. attune raises them again after %s", since, until)
	}
	refused.Until = r.Until
	return refused
}

// GivenBack returns the tries after the old size of a pod's containers was restored. If memory grows again within the
// day, the growth is not a spike, and that raise stays. The argument is not changed.
func GivenBack(tries []v1alpha1.Try, pod *corev1.Pod, now time.Time) []v1alpha1.Try {
	tries = resize.Remembered(tries, now)
	for i := range tries {
		if t := &tries[i]; t.What == v1alpha1.TryClimb && t.PodUID == pod.UID && t.Pod == pod.Name {
			t.Before = nil
		}
	}
	return tries
}
