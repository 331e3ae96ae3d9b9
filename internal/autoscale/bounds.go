package autoscale

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender/replicas"
)

// boundsFor is how long the bounds that an HPA had still count: schedules set others at night and at weekends.
const boundsFor = 8 * 24 * time.Hour

// bounds are minReplicas and maxReplicas of an HPA, and the wider ones that it had before. Pods keep their requests when a
// schedule changes the bounds, so a range of requests has to keep the number of replicas with both.
type bounds struct {
	least, greatest int32 // 0: not known
	earlier         v1alpha1.EarlierBounds
}

// knownBounds are those of HPAs, by name.
type knownBounds map[string]bounds

// recall adds what is stored of an HPA.
func (k knownBounds) recall(row v1alpha1.HPABinding, scaling map[string]replicas.Scaler, now time.Time) {
	if row.MinReplicas < 1 || row.MaxReplicas < row.MinReplicas {
		return
	}
	b := bounds{least: row.MinReplicas, greatest: row.MaxReplicas}
	if e := row.Earlier; e != nil && e.MinReplicas > 0 && e.MaxReplicas >= e.MinReplicas && now.Before(e.Until.Time) && !e.Until.After(now.Add(boundsFor+clockSkew)) {
		b.earlier = *e
		b.earlier.Until = metav1.Time{Time: e.Until.UTC()}
	}
	if s, scales := scaling[row.HPA]; scales && s.Min > 0 {
		if s.Min != b.least || s.Max != b.greatest {
			b.earlier = v1alpha1.EarlierBounds{
				MinReplicas: b.lowest(b.least), MaxReplicas: max(b.earlier.MaxReplicas, b.greatest),
				Until: metav1.Time{Time: now.Add(boundsFor).UTC().Truncate(time.Second)},
			}
		}
		b.least, b.greatest = s.Min, s.Max
		if b.lowest(s.Min) == s.Min && b.earlier.MaxReplicas <= s.Max {
			b.earlier = v1alpha1.EarlierBounds{}
		}
	}
	k[row.HPA] = b
}

// lowest is the least minReplicas of the earlier ones and another.
func (b bounds) lowest(other int32) int32 {
	if b.earlier.MinReplicas > 0 {
		return min(b.earlier.MinReplicas, other)
	}
	return other
}

// widen gives a scaler the widest bounds of the last days. A request that keeps the number of replicas with these also
// keeps the number with narrower bounds, which only limit it further.
func (k knownBounds) widen(hpa string, s replicas.Scaler) replicas.Scaler {
	b := k[hpa]
	s.Min, s.Max = b.lowest(s.Min), max(s.Max, b.earlier.MaxReplicas)
	return s
}

// called is the name of an HPA, with its earlier bounds if they are wider.
func (k knownBounds) called(hpa string) string {
	if e := k[hpa].earlier; e.MinReplicas > 0 {
		return fmt.Sprintf("%s (with minReplicas %d and maxReplicas %d, as in the last days)", hpa, e.MinReplicas, e.MaxReplicas)
	}
	return hpa
}

// store adds the bounds to a row if a range of requests depends on them.
func (k knownBounds) store(row *v1alpha1.HPABinding, scaling map[string]replicas.Scaler, searched bool) {
	b, known := k[row.HPA]
	if s, scales := scaling[row.HPA]; !known && searched && scales && s.Min > 0 {
		b.least, b.greatest = s.Min, s.Max
	}
	row.MinReplicas, row.MaxReplicas = b.least, b.greatest
	if b.earlier.MinReplicas > 0 {
		row.Earlier = &b.earlier
	}
}

// searched reports whether a range was searched for a request of a binding.
func searched(kept map[request]verdict, b Binding) bool {
	for of := range kept {
		if b.binds(of.container, of.resource) {
			return true
		}
	}
	return false
}
