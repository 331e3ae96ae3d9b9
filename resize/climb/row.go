package climb

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// mostRaises is how many times a container of one pod is raised within a day: after each of them it held more than
// ever before. What asks for still more leaks, or needs a size that a person has to choose.
const mostRaises, countsFor = 3, 24 * time.Hour

// Raises are those of one container within a day. The zero value: there is none.
type Raises struct {
	// Times that it was raised since Since, to at most Reached bytes.
	Times   int
	Since   time.Time
	Reached recommender.Amount
	// Until is when they are forgotten.
	Until time.Time
	// Before is the memory that it had before the first of them; zero where that was given back, or is not known.
	Before recommender.Allocation
}

// Of returns the raises of a container of a pod. A row without a pod stands for all pods of the workload.
func Of(tries []v1alpha1.Try, pod *corev1.Pod, container string, now time.Time) Raises {
	i := rowOf(tries, pod.Name, pod, container, now)
	if i < 0 {
		return Raises{}
	}
	t := tries[i]
	r := Raises{Times: int(t.Times), Since: t.Since.Time, Until: t.Until.Time}
	if t.Amount != nil {
		r.Reached = podview.AmountOf(recommender.Memory, *t.Amount)
	}
	if t.Before != nil && t.Pod != "" {
		r.Before = podview.FromResources(*t.Before)[recommender.Memory]
	}
	return r
}

// rowOf is the index of the row that counts for a container of a pod; -1: there is none that has not ended.
func rowOf(tries []v1alpha1.Try, name string, pod *corev1.Pod, container string, now time.Time) int {
	return slices.IndexFunc(tries, func(t v1alpha1.Try) bool {
		return t.What == v1alpha1.TryClimb && now.Before(t.Until.Time) && (t.Container == "" || t.Container == container) &&
			(t.Pod == "" || t.Pod == name && t.PodUID == pod.UID)
	})
}

// Noted returns the tries with one more raise of each container of a plan. The argument is not changed.
func Noted(tries []v1alpha1.Try, pod *corev1.Pod, plan resize.Plan, now time.Time) []v1alpha1.Try {
	tries = resize.Remembered(tries, now)
	for _, m := range plan.Moves {
		amount := podview.Quantity(recommender.Memory, m.To[recommender.Memory].Limit)
		if i := rowOf(tries, plan.PodName, pod, m.Container, now); i >= 0 {
			tries[i].Times++
			tries[i].Amount, tries[i].Until = &amount, metav1.NewTime(now.Add(countsFor))
			continue
		}
		before := podview.ToResources(recommender.Size{recommender.Memory: m.From[recommender.Memory]})
		tries = resize.AddTry(tries, v1alpha1.Try{
			What: v1alpha1.TryClimb, Pod: plan.PodName, PodUID: plan.PodUID, Container: m.Container, Reason: resize.ReasonClimb,
			Times: 1, Amount: &amount, Before: &before, Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(countsFor)),
		})
	}
	return tries
}

// refusal is why a container is not raised once more; nil: it may be.
func (r Raises) refusal(container string, now time.Time) *resize.Refusal {
	if r.Times < mostRaises || !now.Before(r.Until) {
		return nil
	}
	refused := refuse(container, resize.ReasonLeak, "it was raised %d times before an OOM kill since %s, up to %s, and climbs on, which looks like a leak: "+
		"mend it, or give it a higher limit; it is raised again after %s, or in a new pod", r.Times, r.Since.UTC().Format(time.RFC3339),
		recommender.Readable(recommender.Memory, r.Reached), r.Until.UTC().Format(time.RFC3339))
	refused.Until = r.Until
	return refused
}

// GivenBack returns the tries after the containers of a pod are given back what they had. Growth that comes again within the
// day is no spike then: what it needs stays. The argument is not changed.
func GivenBack(tries []v1alpha1.Try, pod *corev1.Pod, now time.Time) []v1alpha1.Try {
	tries = resize.Remembered(tries, now)
	for i := range tries {
		if t := &tries[i]; t.What == v1alpha1.TryClimb && t.PodUID == pod.UID && t.Pod == pod.Name {
			t.Before = nil
		}
	}
	return tries
}
