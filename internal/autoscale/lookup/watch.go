package lookup

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
)

// watch tells of every change of what VPAs want. Their status moves by the minute.
func (l *Lookup) watch(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	informer, err := l.Cache.GetInformer(ctx, kind())
	if err != nil {
		return false, fmt.Errorf("watching VerticalPodAutoscalers: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: l.tell,
		UpdateFunc: func(before, after any) {
			if !equality.Semantic.DeepEqual(specOf(before), specOf(after)) {
				l.tell(after)
			}
		},
		DeleteFunc: l.tell,
	})
	return err == nil, err
}

func specOf(object any) any {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u.Object["spec"]
	}
	return nil
}

// tell takes a VPA, or the tombstone of one whose end was missed.
func (l *Lookup) tell(object any) {
	if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		namespace, _, _ := toolscache.SplitMetaNamespaceKey(key)
		l.Changed(namespace)
	}
}
