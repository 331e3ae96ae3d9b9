// Package trim takes out of objects, before a cache keeps them, what nobody here reads: a cluster has many
// more of them than of anything else that is kept in memory. What it names is gone from every cached object;
// who needs such a field takes it off the lists here first.
//
// Its functions are transforms of informers. They change the object they are given, which is the informer's
// own, and let everything else pass. What is left may be shared among objects, so nobody changes it in place:
// caches hand out copies, and who asks for none only reads.
package trim

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/program"
	"attune.io/attune/internal/workload"
)

// Object trims any object: of a kind that is not known, its managed fields only.
func Object(o any) (any, error) {
	if object, ok := o.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return o, nil
}

// Pod keeps what resizes look at: sizes, what decides how and whether they may change, and what the node
// says of them.
func Pod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	pod.ManagedFields, pod.Finalizers = nil, nil
	pod.Annotations = flags(pod.Annotations)
	podSpec(&pod.Spec)
	podStatus(&pod.Status)
	share(pod)
	return pod, nil
}

func podSpec(spec *corev1.PodSpec) {
	memory := memoryVolumes(spec.Volumes)
	spec.Volumes = memory
	spec.InitContainers, spec.Containers = exact(spec.InitContainers), exact(spec.Containers)
	for i := range spec.InitContainers {
		container(&spec.InitContainers[i], memory)
	}
	for i := range spec.Containers {
		container(&spec.Containers[i], memory)
	}
	spec.EphemeralContainers = nil
	spec.Affinity = requiredNodes(spec.Affinity)
	spec.TopologySpreadConstraints, spec.SchedulingGates = nil, nil
	spec.SecurityContext, spec.ImagePullSecrets, spec.ReadinessGates = nil, nil, nil
	spec.DNSConfig, spec.HostAliases = nil, nil
	spec.ServiceAccountName, spec.DeprecatedServiceAccount, spec.SchedulerName, spec.Hostname, spec.Subdomain = "", "", "", "", ""
}

// requiredNodes is the part of an affinity that says on which nodes the pod may run at all.
func requiredNodes(affinity *corev1.Affinity) *corev1.Affinity {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
	}}
}

// memoryVolumes are those that take from their containers' memory.
func memoryVolumes(volumes []corev1.Volume) []corev1.Volume {
	var memory []corev1.Volume
	for _, v := range volumes {
		if v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory {
			memory = append(memory, v)
		}
	}
	return memory
}

func container(c *corev1.Container, memory []corev1.Volume) {
	var mounts []corev1.VolumeMount
	for _, mount := range c.VolumeMounts {
		if slices.ContainsFunc(memory, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
			mounts = append(mounts, corev1.VolumeMount{Name: mount.Name})
		}
	}
	c.VolumeMounts, c.VolumeDevices = mounts, nil
	c.Env, c.EnvFrom, c.Ports = nil, nil, nil
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle, c.SecurityContext = nil, nil, nil, nil, nil
	c.Image, c.Command, c.Args = program.ShortText(c.Image), program.Short(c.Command), program.Short(c.Args)
	c.WorkingDir, c.TerminationMessagePath, c.TerminationMessagePolicy, c.ImagePullPolicy = "", "", "", ""
}

func podStatus(status *corev1.PodStatus) {
	status.HostIP, status.HostIPs, status.PodIP, status.PodIPs = "", nil, "", nil
	status.EphemeralContainerStatuses = nil
	status.Conditions = exact(slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodInitialized || c.Type == corev1.ContainersReady || c.Type == corev1.PodReadyToStartContainers
	}))
	status.InitContainerStatuses, status.ContainerStatuses = exact(status.InitContainerStatuses), exact(status.ContainerStatuses)
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			s.Image, s.ImageID = "", ""
			s.VolumeMounts, s.User, s.AllocatedResourcesStatus = nil, nil, nil
		}
	}
}

// Node keeps what says how much it has and whether it can resize; not its images.
func Node(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	node.ManagedFields, node.Annotations = nil, nil
	node.Status.Images, node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil, nil
	return node, nil
}

// Budget keeps which pods a PodDisruptionBudget covers and what it allows.
func Budget(o any) (any, error) {
	budget, ok := o.(*policyv1.PodDisruptionBudget)
	if !ok {
		return o, nil
	}
	budget.ManagedFields, budget.Annotations, budget.Labels, budget.OwnerReferences = nil, nil, nil, nil
	budget.Status.DisruptedPods, budget.Status.Conditions = nil, nil
	return budget, nil
}

// Recommendation keeps all but the trace of the computation, which is for people and half of the object, and of that
// the steps that metrics tell. What is not kept must not be written back: a change is sent as a patch.
func Recommendation(o any) (any, error) {
	rec, ok := o.(*v1alpha1.AttuneRecommendation)
	if !ok {
		return o, nil
	}
	rec.ManagedFields = nil
	for i := range rec.Spec.Containers {
		c := &rec.Spec.Containers[i]
		c.Steps = exact(slices.DeleteFunc(c.Steps, func(s v1alpha1.Step) bool {
			return s.Name != "burst" || s.Before == s.After
		}))
	}
	return rec, nil
}

// Workload keeps of a workload what its recommendation rests on: the containers' sizes, the labels that
// policies select by, how far it is rolled out. A part of another workload is nothing but its owner's.
func Workload(o any) (any, error) {
	w, ok := o.(workload.Object)
	if !ok {
		return o, nil
	}
	w.SetManagedFields(nil)
	w.SetAnnotations(flags(w.GetAnnotations()))
	if known, ok := workload.From(w); ok && known.Part() {
		part(w)
	} else if known.Template != nil {
		known.Template.Annotations = flags(known.Template.Annotations)
		podSpec(&known.Template.Spec)
		shareWorkload(w, known.Template)
	}
	selection(w)
	status(w)
	return o, nil
}

// part leaves of a Deployment's ReplicaSet or a CronJob's Job what tells that it is one.
func part(w workload.Object) {
	w.SetAnnotations(nil)
	w.SetLabels(nil)
	switch o := w.(type) {
	case *appsv1.ReplicaSet:
		o.Spec = appsv1.ReplicaSetSpec{}
	case *batchv1.Job:
		o.Spec = batchv1.JobSpec{}
	}
}

// selection drops what says which pods and volumes are a workload's: pods are found by their owners.
func selection(w workload.Object) {
	switch o := w.(type) {
	case *appsv1.Deployment:
		o.Spec.Selector = nil
	case *appsv1.StatefulSet:
		o.Spec.Selector, o.Spec.VolumeClaimTemplates = nil, nil
	case *appsv1.DaemonSet:
		o.Spec.Selector = nil
	case *appsv1.ReplicaSet:
		o.Spec.Selector = nil
	case *batchv1.Job:
		o.Spec.Selector = nil
	}
}

// status drops the conditions, which repeat in words what the counts say.
func status(w workload.Object) {
	switch o := w.(type) {
	case *appsv1.Deployment:
		o.Status.Conditions = nil
	case *appsv1.StatefulSet:
		o.Status.Conditions = nil
	case *appsv1.DaemonSet:
		o.Status.Conditions = nil
	case *appsv1.ReplicaSet:
		o.Status.Conditions = nil
	case *batchv1.Job:
		o.Status = batchv1.JobStatus{}
	case *batchv1.CronJob:
		o.Status = batchv1.CronJobStatus{}
	}
}

// exact is a list without room for more: decoding leaves as much again.
func exact[T any](list []T) []T {
	if len(list) == 0 || len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// longestFlag is the longest value, in bytes, that is kept of an annotation that switches something on or off; longestNote
// that of one that was written by the webhook. What is longer is nobody's work but to fill this memory.
const longestFlag, longestNote = 64, 16 << 10

// kept are the annotations that somebody here reads.
var kept = func() map[string]int {
	of := map[string]int{v1alpha1.SeededAnnotation: longestNote, corev1.MirrorPodAnnotationKey: longestFlag}
	for _, name := range []string{
		v1alpha1.SkipAnnotation, v1alpha1.PausedAnnotation, v1alpha1.ResumedAnnotation, v1alpha1.UndoAnnotation,
		workload.KarpenterDoNotDisrupt, workload.KarpenterDoNotEvict, workload.AutoscalerSafe, workload.DeschedulerPrefersNot,
	} {
		of[name] = longestFlag
	}
	return of
}()

// flags are the annotations that somebody here reads. Of a longer one the beginning is left, which says that it is there;
// a note of the webhook that is too long is none.
func flags(annotations map[string]string) map[string]string {
	maps.DeleteFunc(annotations, func(name, value string) bool {
		most, read := kept[name]
		return !read || most == longestNote && len(value) > most
	})
	for name, value := range annotations {
		if len(value) > kept[name] {
			annotations[name] = strings.Clone(value[:kept[name]])
		}
	}
	return annotations
}
