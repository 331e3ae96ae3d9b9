package resize_test

import (
	"testing"

	"attune.io/attune/podview"
	. "attune.io/attune/resize"
)

// BenchmarkPatch builds the patch for a pod of three containers.
func BenchmarkPatch(b *testing.B) {
	pod := running(size(500, 1000, 512, 1024), size(100, 0, 64, 0), size(200, 400, 64, 128))
	wished := []podview.Container{
		{Name: "app", Size: size(250, 500, 600, 1200)},
		{Name: "side-1", Size: size(150, 0, 96, 0)},
		{Name: "side-2", Size: size(250, 500, 96, 192)},
	}
	b.Run("planned", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, refusal := PlanFor(pod, wished, able(), noon); refusal != nil {
				b.Fatal(refusal)
			}
		}
	})
	plan, refusal := PlanFor(pod, wished, able(), noon)
	if refusal != nil {
		b.Fatal(refusal)
	}
	b.Run("written", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.SetBytes(int64(len(plan.Patch())))
		}
	})
}
