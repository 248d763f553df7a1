INSERT INTO public.states VALUES %s
