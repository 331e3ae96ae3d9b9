package admission

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// dice make one scene. The same number makes the same scene, whatever else was made before.
type dice struct {
	*rand.Rand
	// oddity is how many amounts of a hundred are ones that nobody sane writes.
	oddity int
}

func throw(number uint64) dice {
	d := dice{Rand: rand.New(rand.NewPCG(number, 0))}
	if d.chance(25) {
		d.oddity = 25
	}
	return d
}

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// Amounts come from few values, so that equal ones, neighbours and edges are met often.
var (
	usual = map[corev1.ResourceName][]string{
		corev1.ResourceCPU:    {"1m", "10m", "100m", "250m", "333m", "500m", "1", "1500m", "2", "3", "8"},
		corev1.ResourceMemory: {"1Mi", "16Mi", "64Mi", "100M", "128Mi", "333333333", "512Mi", "1Gi", "3Gi", "8Gi"},
	}
	odd = map[corev1.ResourceName][]string{
		corev1.ResourceCPU:    {"0", "1n", "500u", "1500u", "1e-3", "0.1", "2.0005", "1e3", "1k", "1M", "1000001", "1P", "8E", "1e18"},
		corev1.ResourceMemory: {"0", "1n", "1", "100m", "1500m", "1e3", "129e6", "0.5Gi", "2.5", "1Ti", "1Pi", "1125899906842625", "7Ei", "1e18"},
	}
	sized = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
)

func (d dice) amount(name corev1.ResourceName) resource.Quantity {
	if d.chance(d.oddity) {
		return resource.MustParse(pick(d, odd[name]...))
	}
	return resource.MustParse(pick(d, usual[name]...))
}

// ordered are two amounts, the lesser first, and sometimes equal.
func (d dice) ordered(name corev1.ResourceName) (low, high resource.Quantity) {
	low, high = d.amount(name), d.amount(name)
	if low.Cmp(high) > 0 {
		return high, low
	}
	return low, high
}

// maybe is an amount in some percent of cases.
func (d dice) maybe(name corev1.ResourceName, percent int) *resource.Quantity {
	if !d.chance(percent) {
		return nil
	}
	q := d.amount(name)
	return &q
}

func put(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = q
}
