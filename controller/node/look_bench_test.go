package node

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkLook is a reconcile of a node with 110 pods, of which ten do not share; kept is the memory that its result
// takes.
func BenchmarkLook(b *testing.B) {
	pods := make([]*corev1.Pod, 110)
	for i := range pods {
		pods[i] = member(fmt.Sprintf("web-7c9f6d5b8-%05d", i), size(1500, 64, 128))
	}
	s := sceneOf("140", 1000, pods...)
	for _, pod := range pods[100:] {
		delete(s.recommendations, pod.UID)
	}
	b.Run("share", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.share(always)
		}
	})
	out := s.share(always)
	b.Run("kept", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.look(out)
		}
	})
	look := s.look(out)
	b.Run("answer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			look.answer()
		}
	})
}
