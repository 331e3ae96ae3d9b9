package api

import (
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// kind is one that the server serves.
type kind struct {
	schema.GroupVersionKind
	// resource is the plural name that errors speak of.
	resource string
	// cluster: objects have no namespace.
	cluster bool
	// status: it is a subresource of its own.
	status bool
	// generation: the server counts changes of the spec.
	generation bool
	object     reflect.Type
}

func (k *kind) group() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.resource}
}

// New is an empty object.
func (k *kind) New() client.Object { return reflect.New(k.object).Interface().(client.Object) }

var served = []struct {
	object   client.Object
	gv       schema.GroupVersion
	resource string
	cluster  bool
	status   bool
	counted  bool
}{
	{&corev1.Namespace{}, corev1.SchemeGroupVersion, "namespaces", true, true, false},
	{&corev1.Node{}, corev1.SchemeGroupVersion, "nodes", true, true, false},
	{&corev1.Pod{}, corev1.SchemeGroupVersion, "pods", false, true, true},
	{&corev1.ResourceQuota{}, corev1.SchemeGroupVersion, "resourcequotas", false, true, false},
	{&corev1.LimitRange{}, corev1.SchemeGroupVersion, "limitranges", false, false, false},
	{&corev1.Event{}, corev1.SchemeGroupVersion, "events", false, false, false},
	{&appsv1.Deployment{}, appsv1.SchemeGroupVersion, "deployments", false, true, true},
	{&appsv1.ReplicaSet{}, appsv1.SchemeGroupVersion, "replicasets", false, true, true},
	{&appsv1.StatefulSet{}, appsv1.SchemeGroupVersion, "statefulsets", false, true, true},
	{&appsv1.DaemonSet{}, appsv1.SchemeGroupVersion, "daemonsets", false, true, true},
	{&batchv1.Job{}, batchv1.SchemeGroupVersion, "jobs", false, true, true},
	{&batchv1.CronJob{}, batchv1.SchemeGroupVersion, "cronjobs", false, true, true},
	{&policyv1.PodDisruptionBudget{}, policyv1.SchemeGroupVersion, "poddisruptionbudgets", false, true, true},
	{&autoscalingv2.HorizontalPodAutoscaler{}, autoscalingv2.SchemeGroupVersion, "horizontalpodautoscalers", false, true, false},
	{&schedulingv1.PriorityClass{}, schedulingv1.SchemeGroupVersion, "priorityclasses", true, false, false},
	{&v1alpha1.AttunePolicy{}, v1alpha1.GroupVersion, "attunepolicies", false, true, true},
	{&v1alpha1.AttuneClusterPolicy{}, v1alpha1.GroupVersion, "attuneclusterpolicies", true, true, true},
	{&v1alpha1.AttuneRecommendation{}, v1alpha1.GroupVersion, "attunerecommendations", false, true, true},
	{&v1alpha1.AttuneDefaults{}, v1alpha1.GroupVersion, "attunedefaults", true, false, true},
	{&v1alpha1.AttuneNamespaceDefaults{}, v1alpha1.GroupVersion, "attunenamespacedefaults", false, false, true},
}

func kinds() map[reflect.Type]*kind {
	all := map[reflect.Type]*kind{}
	for _, s := range served {
		t := reflect.TypeOf(s.object).Elem()
		all[t] = &kind{
			GroupVersionKind: s.gv.WithKind(t.Name()), resource: s.resource, cluster: s.cluster,
			status: s.status, generation: s.counted, object: t,
		}
	}
	return all
}

// kindOf an object or a list; it panics on what is not served: a test asks for nothing else.
func (s *Server) kindOf(o runtime.Object) *kind {
	t := reflect.TypeOf(o).Elem()
	if k := s.kinds[t]; k != nil {
		return k
	}
	if items, found := t.FieldByName("Items"); found {
		if k := s.kinds[items.Type.Elem()]; k != nil {
			return k
		}
	}
	panic(fmt.Sprintf("the server does not serve %T", o))
}

// typed makes a call with an object of the kind that an untyped one names, and fills that one with what the call left.
func (s *Server) typed(u *unstructured.Unstructured, call func(client.Object) error) error {
	for _, k := range s.kinds {
		if k.GroupVersionKind != u.GroupVersionKind() {
			continue
		}
		o := k.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
			return err
		}
		if err := call(o); err != nil {
			return err
		}
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		u.SetUnstructuredContent(raw)
		return err
	}
	panic(fmt.Sprintf("the server does not serve %s", u.GroupVersionKind()))
}
