package certs

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// watch wakes the loop of Start when the Secret or a configuration changes. Each object is watched by its name,
// because the operator has rights for these objects alone. A failing watch costs time only (see recheck).
func (s *SelfSigned) watch(ctx context.Context) {
	s.watchOne(ctx, s.Secret, func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().Secrets().Informer()
	})
	for _, name := range s.Mutating {
		s.watchOne(ctx, name, func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()
		})
	}
	for _, name := range s.Validating {
		s.watchOne(ctx, name, func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
		})
	}
}

// watchOne watches one object by name, until the context ends.
func (s *SelfSigned) watchOne(ctx context.Context, name string, of func(informers.SharedInformerFactory) cache.SharedIndexInformer) {
	// A factory for each object, since the field selector is one for all informers of a factory.
	factory := informers.NewSharedInformerFactoryWithOptions(s.Client, 0,
		informers.WithNamespace(s.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	_, err := of(factory).AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.wake() },
		UpdateFunc: func(any, any) { s.wake() },
		DeleteFunc: func(any) { s.wake() },
	})
	if err != nil {
		s.Log.Error(err, "Watching failed; changes are seen late", "object", name, "every", recheck)
		return
	}
	factory.Start(ctx.Done())
}

// wake makes the loop of Start run sync. It never blocks: several events before the next sync count as one.
func (s *SelfSigned) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // it is awake already
	}
}
