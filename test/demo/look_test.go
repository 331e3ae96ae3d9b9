package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/test/cluster"
)

var (
	large  = size{cpu: 500, cpuLimit: 1000, memory: 512 * mebibyte, memoryLimit: 1024 * mebibyte}
	little = size{cpu: 250, cpuLimit: 500, memory: 64 * mebibyte, memoryLimit: 128 * mebibyte}
)

// at is a pod that has a size everywhere.
func at(s size) look {
	return look{
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "one"}}, uid: "one", containerID: "containerd://1",
		asked: s, given: s, kernel: cluster.Grant{Version: 1, Weight: s.cpu * 1024 / 1000, Quota: s.cpuLimit * 100, Memory: s.memoryLimit},
	}
}

func but(l look, change func(*look)) look {
	l.pod = l.pod.DeepCopy()
	change(&l)
	return l
}

func TestResizedInPlace(t *testing.T) {
	before := but(at(large), func(l *look) { l.restarts = 1 })
	after := but(at(little), func(l *look) { l.restarts = 1 })
	require.NoError(t, resizedInPlace(before, after))
	for want, now := range map[string]look{
		"another pod has taken its place":      but(after, func(l *look) { l.uid = types.UID("two") }),
		"web-1 still has its old size":         before,
		"the container of web-1 was restarted": but(after, func(l *look) { l.restarts++ }),
		"the cgroup of web-1 has cpu.shares 512, cpu.cfs_quota_us 50000, memory.limit_in_bytes 134217728, not cpu.shares 256, cpu.cfs_quota_us 50000, memory.limit_in_bytes 134217728": but(after, func(l *look) { l.kernel.Weight = 512 }),
		"web-1 asks for " + little.String() + " and the kubelet gives it " + large.String():                                                                                            but(after, func(l *look) { l.given = large }),
	} {
		require.EqualError(t, resizedInPlace(before, now), want)
	}
	other := but(after, func(l *look) { l.containerID = "containerd://2" })
	require.ErrorContains(t, resizedInPlace(before, other), "restarted", "a container that was replaced counts as restarted")
}

func TestCreatedSized(t *testing.T) {
	born := but(at(little), func(l *look) { l.seeded, l.pod.Generation = true, 1 })
	require.NoError(t, createdSized(large, born))
	for want, now := range map[string]look{
		"its template's size":     but(born, func(l *look) { l.asked, l.given = large, large }),
		"no note":                 but(born, func(l *look) { l.seeded = false }),
		"changed after":           but(born, func(l *look) { l.pod.Generation = 2 }),
		"the kubelet gives it":    but(born, func(l *look) { l.given = large }),
		"the cgroup of web-1 has": but(born, func(l *look) { l.kernel.Memory++ }),
	} {
		require.ErrorContains(t, createdSized(large, now), want)
	}
}

func TestWithout(t *testing.T) {
	one, two := at(large), but(at(large), func(l *look) { l.uid = "two" })
	assert.Equal(t, []look{two}, without([]look{one, two}, map[types.UID]bool{"one": true}))
	assert.Empty(t, without([]look{one}, map[types.UID]bool{"one": true}))
}

func TestReverted(t *testing.T) {
	before := at(large)
	ended := func(reason string) func(*look) {
		return func(l *look) {
			status := corev1.ContainerStatus{}
			if reason != "" {
				status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: reason}
			}
			l.pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
			l.restarts++
		}
	}
	now := but(at(large), ended("OOMKilled"))
	require.NoError(t, checkReverted(before, now))
	for want, now := range map[string]look{
		"another pod":          but(now, func(l *look) { l.uid = "two" }),
		"asks for":             but(now, func(l *look) { l.asked = little }),
		"not been killed":      but(at(large), ended("")),
		"ended with Error":     but(at(large), ended("Error")),
		"the kubelet gives it": but(now, func(l *look) { l.given = little }),
	} {
		require.ErrorContains(t, checkReverted(before, now), want)
	}
}
